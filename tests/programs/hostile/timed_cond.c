// Timed waits on condition variables by CLOCK_REALTIME, CLOCK_MONOTONIC (condattr)
// and pthread_cond_clockwait: never early, mutex held again, signals still arrive.
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t real = PTHREAD_COND_INITIALIZER, mono, told = PTHREAD_COND_INITIALIZER;
static int said;

static void expect_timeout(pthread_cond_t *cond, clockid_t clock, int clockwait) {
    struct timespec until = after_ms(clock, 15);
    int r;
    long long end = until.tv_sec * 1000000000LL + until.tv_nsec;
    do r = clockwait ? pthread_cond_clockwait(cond, &lock, clock, &until) : pthread_cond_timedwait(cond, &lock, &until);
    while (r == 0);
    CHECK(r == ETIMEDOUT && now_ns(clock) >= end);
    CHECK(pthread_mutex_trylock(&lock) == EBUSY);
}

static void *teller(void *arg) {
    (void)arg;
    sleep_ms(5);
    pthread_mutex_lock(&lock);
    said = 1;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    pthread_condattr_t attr;
    clockid_t clock;
    CHECK(pthread_condattr_init(&attr) == 0 && pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_condattr_getclock(&attr, &clock) == 0 && clock == CLOCK_MONOTONIC);
    CHECK(pthread_cond_init(&mono, &attr) == 0);
    pthread_mutex_lock(&lock);
    expect_timeout(&real, CLOCK_REALTIME, 0);
    expect_timeout(&mono, CLOCK_MONOTONIC, 0);
    expect_timeout(&real, CLOCK_MONOTONIC, 1);
    expect_timeout(&mono, CLOCK_REALTIME, 1);
    struct timespec past = {1, 0}, bad = {1, 1000000000}, far = after_ms(CLOCK_REALTIME, 20000);
    CHECK(pthread_cond_timedwait(&real, &lock, &past) == ETIMEDOUT);
    CHECK(pthread_cond_timedwait(&real, &lock, &bad) == EINVAL);
    pthread_t t = spawn(teller, NULL);
    while (!said) CHECK(pthread_cond_timedwait(&told, &lock, &far) == 0);
    pthread_mutex_unlock(&lock);
    join(t);
    puts("timed waits");
    return done();
}
