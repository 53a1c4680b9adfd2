// setitimer at a high rate: a handler that touches shared atomics and plain data
// lands inside whatever three hammering threads are doing.
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long ticks, guarded, atomic;
static volatile long plain[8];
static int stop;

static void on_tick(int sig) {
    int saved = errno;
    ADD(ticks, 1);
    plain[sig % 8] = plain[(sig + 1) % 8] + 1;
    errno = saved;
}

static void *hammer(void *arg) {
    long mine = 0;
    (void)arg;
    while (!LOAD(stop)) {
        pthread_mutex_lock(&lock);
        guarded++;
        pthread_mutex_unlock(&lock);
        ADD(atomic, 1);
        free(malloc(64));
        mine++;
    }
    return (void *)mine;
}

int main(void) {
    struct sigaction sa = {0};
    sa.sa_handler = on_tick;
    sa.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    struct itimerval every = {{0, 250}, {0, 250}}, off = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    pthread_t t[3];
    long sum = 0;
    for (int i = 0; i < 3; i++) t[i] = spawn(hammer, NULL);
    long long end = now_ns(CLOCK_MONOTONIC) + 5000000000LL;
    while (LOAD(ticks) < 300 && now_ns(CLOCK_MONOTONIC) < end) usleep(500);
    STORE(stop, 1);
    for (int i = 0; i < 3; i++) sum += (long)join(t[i]);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    CHECK(ticks > 0 && guarded == sum && atomic == sum);
    puts("storm weathered");
    return done();
}
