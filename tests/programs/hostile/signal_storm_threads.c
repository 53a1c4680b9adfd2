// timer_create with SIGEV_THREAD_ID (profilers do this): each of two threads is
// interrupted by its own timer, and handlers nest by SA_NODEFER and pthread_kill.
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static long ticks, nested, work;
static __thread int depth;
static int stop;

static void on_tick(int sig, siginfo_t *info, void *context) {
    int saved = errno;
    CHECK(sig == SIGUSR1 && info && context);
    depth++;
    ADD(ticks, 1);
    if (depth == 1) pthread_kill(pthread_self(), SIGUSR1);
    else ADD(nested, 1);
    depth--;
    errno = saved;
}

static void *timed(void *arg) {
    struct sigevent ev = {0};
    struct itimerspec every = {{0, 300000}, {0, 300000}};
    timer_t timer;
    (void)arg;
    ev.sigev_notify = SIGEV_THREAD_ID;
    ev.sigev_signo = SIGUSR1;
    ev.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    CHECK(timer_create(CLOCK_MONOTONIC, &ev, &timer) == 0);
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    long mine = 0;
    while (!LOAD(stop)) ADD(work, 1), mine++;
    CHECK(timer_delete(timer) == 0);
    return (void *)mine;
}

int main(void) {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = on_tick;
    sa.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    pthread_t a = spawn(timed, NULL), b = spawn(timed, NULL);
    long long end = now_ns(CLOCK_MONOTONIC) + 5000000000LL;
    while (LOAD(ticks) < 400 && now_ns(CLOCK_MONOTONIC) < end) usleep(500);
    STORE(stop, 1);
    long sum = (long)join(a);
    sum += (long)join(b);
    CHECK(ticks > 0 && nested > 0 && work == sum);
    puts("timers per thread");
    return done();
}
