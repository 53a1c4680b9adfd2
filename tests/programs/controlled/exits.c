//@ exit: 7
// exit from a second thread while others wait, sleep and hold locks; handlers at exit still have points.
#include "../hostile/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static long shared;

static void at_exit_(void) {
    ADD(shared, 1);
    done();
}

static void *waiter(void *arg) {
    pthread_mutex_lock(&lock);
    for (;;) pthread_cond_wait(&never, &lock);
    return arg;
}

static void *sleeper(void *arg) {
    for (;;) sleep(1000);
    return arg;
}

static void *leaver(void *arg) {
    for (int i = 0; i < 3; i++) ADD(shared, 1);
    exit(7);
    return arg;
}

int main(void) {
    CHECK(atexit(at_exit_) == 0);
    spawn(waiter, NULL);
    spawn(sleeper, NULL);
    join(spawn(leaver, NULL));
    return 1;
}
