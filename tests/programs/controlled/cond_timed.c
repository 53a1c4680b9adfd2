// Timed waits on conditions with either outcome and either clock; waits that end for no reason are no news.
#include "../hostile/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t real = PTHREAD_COND_INITIALIZER, mono;
static int news;

static void *teller(void *arg) {
    pthread_mutex_lock(&lock);
    news = 1;
    pthread_cond_signal(&mono);
    pthread_mutex_unlock(&lock);
    return arg;
}

static int wait_for_news(clockid_t clock, long ms) {
    struct timespec until = after_ms(clock, ms);
    int result = 0;
    while (!news && result == 0) result = pthread_cond_timedwait(clock == CLOCK_REALTIME ? &real : &mono, &lock, &until);
    CHECK(result == 0 || (result == ETIMEDOUT && now_ns(clock) >= until.tv_sec * 1000000000LL + until.tv_nsec));
    return result;
}

int main(void) {
    pthread_condattr_t attr;
    CHECK(pthread_condattr_init(&attr) == 0 && pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&mono, &attr) == 0);
    pthread_mutex_lock(&lock);
    CHECK(wait_for_news(CLOCK_REALTIME, 20) == ETIMEDOUT);
    CHECK(wait_for_news(CLOCK_MONOTONIC, 20) == ETIMEDOUT);
    struct timespec until = after_ms(CLOCK_MONOTONIC, 20);
    CHECK(pthread_cond_clockwait(&real, &lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    until = after_ms(CLOCK_REALTIME, -1000);
    CHECK(pthread_cond_timedwait(&real, &lock, &until) == ETIMEDOUT);
    pthread_t t = spawn(teller, NULL);
    CHECK(wait_for_news(CLOCK_MONOTONIC, 60000) == 0);
    pthread_mutex_unlock(&lock);
    join(t);
    return done();
}
