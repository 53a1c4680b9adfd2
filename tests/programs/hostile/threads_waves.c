//@ timeout: 40
// 2,000 threads in all, 200 alive at a time with small stacks; half are joined and
// half are detached.
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_here;
static long guarded, finished;

static void *body(void *arg) {
    pthread_barrier_wait(&all_here);
    pthread_mutex_lock(&lock);
    guarded += (long)arg;
    pthread_mutex_unlock(&lock);
    ADD(finished, 1);
    return arg;
}

int main(void) {
    pthread_attr_t attr;
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 64 * 1024) == 0);
    CHECK(pthread_barrier_init(&all_here, NULL, 200) == 0);
    for (int wave = 0; wave < 10; wave++) {
        pthread_t t[200];
        for (long i = 0; i < 200; i++) {
            CHECK(pthread_create(&t[i], &attr, body, (void *)i) == 0);
            if (i % 2) CHECK(pthread_detach(t[i]) == 0);
        }
        for (long i = 0; i < 200; i += 2) CHECK(join(t[i]) == (void *)i);
        while (LOAD(finished) < 200 * (wave + 1)) usleep(100);
    }
    pthread_mutex_lock(&lock);
    CHECK(guarded == 10 * 199 * 100);
    pthread_mutex_unlock(&lock);
    puts("2000 threads");
    return done();
}
