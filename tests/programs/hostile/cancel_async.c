// Asynchronous cancellation of a thread that only computes, and cancellation
// disabled over a lock region and a blocking call.
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long spun;
static long shared, cleaned;
static int ready, cancelled;

static void clean(void *arg) { ADD(cleaned, (long)arg); }

static void *spinner(void *arg) {
    (void)arg;
    pthread_cleanup_push(clean, (void *)1);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    STORE(ready, 1);
    for (;;) spun++;
    pthread_cleanup_pop(0);
    return NULL;
}

static void *shielded(void *arg) {
    int old;
    (void)arg;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
    STORE(ready, 1);
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        shared++;
        usleep(100);
        pthread_mutex_unlock(&lock);
    }
    while (!LOAD(cancelled)) usleep(20); // a cancellation point, were it not disabled
    CHECK(pthread_setcancelstate(old, NULL) == 0);
    pthread_testcancel();
    CHECK(!"cancelled by now");
    return NULL;
}

int main(void) {
    for (int i = 0; i < 20; i++) {
        STORE(ready, 0);
        pthread_t t = spawn(spinner, NULL);
        while (!LOAD(ready)) usleep(20);
        CHECK(pthread_cancel(t) == 0 && join(t) == PTHREAD_CANCELED);
        STORE(ready, 0);
        STORE(cancelled, 0);
        t = spawn(shielded, NULL);
        while (!LOAD(ready)) usleep(20);
        CHECK(pthread_cancel(t) == 0);
        STORE(cancelled, 1);
        CHECK(join(t) == PTHREAD_CANCELED);
    }
    CHECK(cleaned == 20 && shared == 400);
    churn(2, 300);
    puts("40 cancelled");
    return done();
}
