// pthread_key destructors that lock, touch shared data, allocate and set their key
// again, so that they run in several rounds after the thread's function ended.
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t first, second;
static long runs, freed;
static __thread long plain_tls;

static void on_first(void *value) {
    pthread_mutex_lock(&lock);
    runs++;
    pthread_mutex_unlock(&lock);
    CHECK(plain_tls == 9 && pthread_getspecific(first) == NULL);
    if ((long)value > 1) CHECK(pthread_setspecific(first, (void *)((long)value - 1)) == 0);
    if (!pthread_getspecific(second)) CHECK(pthread_setspecific(second, malloc(10)) == 0);
}

static void on_second(void *value) {
    free(value);
    ADD(freed, 1);
}

static void *body(void *arg) {
    plain_tls = 9;
    CHECK(pthread_setspecific(first, arg) == 0);
    if ((long)arg == 2) pthread_exit(NULL);
    return NULL;
}

int main(void) {
    CHECK(pthread_key_create(&first, on_first) == 0 && pthread_key_create(&second, on_second) == 0);
    for (int round = 0; round < 20; round++) {
        pthread_t t[3];
        for (long i = 0; i < 3; i++) t[i] = spawn(body, (void *)(i + 1));
        for (int i = 0; i < 3; i++) join(t[i]);
    }
    CHECK(runs == 20 * (1 + 2 + 3) && freed == runs && plain_tls == 0);
    pthread_key_t many[500];
    for (int i = 0; i < 500; i++) CHECK(pthread_key_create(&many[i], NULL) == 0);
    for (int i = 0; i < 500; i++) CHECK(pthread_key_delete(many[i]) == 0);
    puts("120 destructor runs");
    return done();
}
