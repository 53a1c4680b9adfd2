// Twelve hundred threads that are alive at once, and two hundred that touch the same data at once.
#include "check.h"

enum { ALIVE = 1200, AT_ONCE = 200 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static int is_open;
static long under_lock, atomic, own[ALIVE];

static void *body(void *arg) {
    long mine = (long)arg;
    pthread_mutex_lock(&lock);
    while (!is_open) pthread_cond_wait(&opened, &lock);
    under_lock++;
    pthread_mutex_unlock(&lock);
    own[mine] = mine;
    ADD(atomic, 1);
    return NULL;
}

static void wave(int count) {
    static pthread_t threads[ALIVE];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    is_open = 0;
    for (long i = 0; i < count; i++) CHECK(pthread_create(&threads[i], &small, body, (void *)i) == 0);
    pthread_mutex_lock(&lock);
    is_open = 1;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < count; i++) join(threads[i]);
}

int main(void) {
    wave(ALIVE);
    wave(AT_ONCE);
    CHECK(under_lock == ALIVE + AT_ONCE && atomic == ALIVE + AT_ONCE);
    for (long i = 0; i < ALIVE; i++) CHECK(own[i] == i);
    puts("all there");
    return done();
}
