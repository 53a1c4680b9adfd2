// siglongjmp out of a signal handler, 2,000 times, with the mask restored; and out
// of a SIGSEGV and a SIGFPE handler while another thread works.
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static volatile sig_atomic_t hits;
static int stop;
static long shared;

static void on_signal(int sig) {
    hits++;
    ADD(shared, 1);
    siglongjmp(back, sig);
}

static void *hammer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) ADD(shared, 1);
    return NULL;
}

int main(void) {
    struct sigaction sa = {0};
    sigset_t all, now;
    sa.sa_handler = on_signal;
    CHECK(!sigaction(SIGUSR1, &sa, NULL) && !sigaction(SIGSEGV, &sa, NULL) && !sigaction(SIGFPE, &sa, NULL));
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, &now) == 0);
    pthread_t t = spawn(hammer, NULL);
    CHECK(pthread_sigmask(SIG_SETMASK, &now, NULL) == 0);
    for (volatile int i = 0; i < 2000; i++) {
        int got = sigsetjmp(back, 1);
        if (got == 0) {
            raise(SIGUSR1);
            CHECK(!"raise returned");
        }
        CHECK(got == SIGUSR1);
    }
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1));
    if (sigsetjmp(back, 1) == 0) *(volatile int *)8 = 1;
    volatile int zero = 0;
    if (sigsetjmp(back, 1) == 0) zero = 5 / zero;
    CHECK(hits == 2002);
    STORE(stop, 1);
    join(t);
    churn(2, 300);
    puts("2002 handlers left by jump");
    return done();
}
