// Joins of every kind, detached threads, and thread handles that come back.
#include "../hostile/check.h"

static int go, detached_done;

static void *patient(void *arg) {
    while (!LOAD(go)) usleep(100);
    return arg;
}

static void *detached(void *arg) {
    ADD(detached_done, 1);
    return arg;
}

static void *joins_itself(void *arg) {
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    return arg;
}

int main(void) {
    void *result;
    pthread_t t = spawn(patient, (void *)7);
    CHECK(pthread_tryjoin_np(t, &result) == EBUSY);
    struct timespec until = after_ms(CLOCK_REALTIME, 10);
    CHECK(pthread_timedjoin_np(t, &result, &until) == ETIMEDOUT);
    STORE(go, 1);
    until = after_ms(CLOCK_MONOTONIC, 60000);
    CHECK(pthread_clockjoin_np(t, &result, CLOCK_MONOTONIC, &until) == 0 && result == (void *)7);
    for (int i = 0; i < 3; i++) CHECK(pthread_detach(spawn(detached, NULL)) == 0);
    while (LOAD(detached_done) < 3) sched_yield();
    for (long i = 0; i < 4; i++) CHECK(join(spawn(patient, (void *)i)) == (void *)i);
    join(spawn(joins_itself, NULL));
    return done();
}
