// Clocks never run backwards, in one thread or between two; a sleep takes at least as long as was asked for.
#include "../hostile/check.h"
#include <sys/time.h>

static long long last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void look(void) {
    pthread_mutex_lock(&lock);
    long long now = now_ns(CLOCK_MONOTONIC);
    CHECK(now >= last);
    last = now;
    pthread_mutex_unlock(&lock);
}

static void *sleeper(void *arg) {
    for (int i = 0; i < 4; i++) {
        long long before = now_ns(CLOCK_MONOTONIC);
        usleep(1000 * (unsigned)(long)arg);
        CHECK(now_ns(CLOCK_MONOTONIC) - before >= 1000000LL * (long)arg);
        look();
    }
    struct timespec until = after_ms(CLOCK_MONOTONIC, 5);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
    CHECK(now_ns(CLOCK_MONOTONIC) >= until.tv_sec * 1000000000LL + until.tv_nsec);
    return NULL;
}

int main(void) {
    struct timeval tv;
    pthread_t a = spawn(sleeper, (void *)3), b = spawn(sleeper, (void *)7);
    for (int i = 0; i < 5; i++) look();
    CHECK(sleep(3) == 0); // a long one: all others have ended or wait by then
    join(a);
    join(b);
    CHECK(gettimeofday(&tv, NULL) == 0 && labs((long)(tv.tv_sec - time(NULL))) <= 1);
    return done();
}
