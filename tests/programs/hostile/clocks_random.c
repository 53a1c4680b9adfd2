// Clocks go forward and agree with sleeps, getrandom and /dev/urandom give bytes,
// time functions return what they promise.
#include "check.h"
#include <sys/random.h>
#include <sys/time.h>

static void *forward(void *arg) {
    long long last = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 2000; i++) {
        long long now = now_ns(CLOCK_MONOTONIC);
        CHECK(now >= last);
        last = now;
    }
    return arg;
}

int main(void) {
    pthread_t a = spawn(forward, NULL), b = spawn(forward, NULL);
    long long before = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
    CHECK(usleep(3000) == 0);
    struct timespec three = {0, 3000000}, until = after_ms(CLOCK_MONOTONIC, 3);
    CHECK(nanosleep(&three, NULL) == 0);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
    CHECK(now_ns(CLOCK_MONOTONIC) - before >= 6000000);
    CHECK(now_ns(CLOCK_THREAD_CPUTIME_ID) >= cpu && now_ns(CLOCK_PROCESS_CPUTIME_ID) > 0);
    struct timeval tv;
    time_t t = time(NULL);
    CHECK(gettimeofday(&tv, NULL) == 0 && tv.tv_sec >= t && tv.tv_sec <= t + 20);
    CHECK(llabs(now_ns(CLOCK_REALTIME) / 1000000000 - (long long)t) <= 20);
    struct timespec bad = {0, 2000000000}, spec;
    CHECK(nanosleep(&bad, NULL) == -1 && errno == EINVAL);
    CHECK(clock_gettime(12345, &spec) == -1 && errno == EINVAL && clock_getres(CLOCK_MONOTONIC, &spec) == 0);
    CHECK(timespec_get(&spec, TIME_UTC) == TIME_UTC && sleep(0) == 0);
    unsigned char x[32] = {0}, y[32] = {0};
    CHECK(getrandom(x, 32, 0) == 32 && getentropy(y, 32) == 0 && memcmp(x, y, 32) != 0);
    join(a);
    join(b);
    puts("time goes by");
    return done();
}
