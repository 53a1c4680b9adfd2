// trylock, timedlock and clocklock against a holder: each ends as it must in every schedule, and time-outs take
// as long as was asked for.
#include "../hostile/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int held, leave, tried;

static void *holder(void *arg) {
    pthread_mutex_lock(&lock);
    pthread_rwlock_wrlock(&rw);
    STORE(held, 1);
    while (!LOAD(leave)) usleep(100);
    pthread_rwlock_unlock(&rw);
    pthread_mutex_unlock(&lock);
    return arg;
}

static void *trier(void *arg) {
    for (int i = 0; i < 3; i++) {
        int result = pthread_mutex_trylock(&lock);
        CHECK(result == 0 || result == EBUSY);
        if (result == 0) CHECK(pthread_mutex_unlock(&lock) == 0);
        ADD(tried, 1);
    }
    return arg;
}

int main(void) {
    pthread_t h = spawn(holder, NULL), t = spawn(trier, NULL);
    while (!LOAD(held)) usleep(10);
    long long before = now_ns(CLOCK_REALTIME);
    struct timespec until = after_ms(CLOCK_REALTIME, 30);
    CHECK(pthread_mutex_trylock(&lock) == EBUSY);
    CHECK(pthread_mutex_timedlock(&lock, &until) == ETIMEDOUT);
    CHECK(now_ns(CLOCK_REALTIME) - before >= 30000000);
    CHECK(pthread_rwlock_timedrdlock(&rw, &until) == ETIMEDOUT);
    until = after_ms(CLOCK_MONOTONIC, 10);
    CHECK(pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    STORE(leave, 1);
    until = after_ms(CLOCK_REALTIME, 60000);
    CHECK(pthread_mutex_timedlock(&lock, &until) == 0 && pthread_mutex_unlock(&lock) == 0);
    CHECK(pthread_rwlock_timedwrlock(&rw, &until) == 0 && pthread_rwlock_unlock(&rw) == 0);
    join(h);
    join(t);
    CHECK(tried == 3);
    return done();
}
