// What sigaction and signal hand back: the old handler, flags and mask are the
// ones set; SA_RESETHAND resets; signal() returns the previous handler.
#include "check.h"
#include <signal.h>

static int plain_hits, info_hits;
static void plain(int sig) { (void)sig; plain_hits++; }
static void info(int sig, siginfo_t *si, void *uc) {
    CHECK(si->si_signo == sig && uc);
    info_hits += si->si_code == SI_QUEUE ? si->si_value.sival_int : 1;
}

int main(void) {
    struct sigaction sa, old;
    churn(2, 300);
    memset(&sa, 0, sizeof sa);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL && !(old.sa_flags & SA_SIGINFO));
    sa.sa_sigaction = info;
    sa.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaddset(&sa.sa_mask, SIGHUP);
    CHECK(sigaction(SIGUSR1, &sa, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0);
    CHECK(old.sa_sigaction == info && (old.sa_flags & SA_SIGINFO) && (old.sa_flags & SA_RESTART));
    CHECK(!(old.sa_flags & SA_NODEFER) && !(old.sa_flags & SA_ONSTACK) && !(old.sa_flags & SA_RESETHAND));
    CHECK(sigismember(&old.sa_mask, SIGHUP) == 1 && sigismember(&old.sa_mask, SIGINT) == 0);
    union sigval five;
    five.sival_int = 5;
    CHECK(raise(SIGUSR1) == 0 && sigqueue(getpid(), SIGUSR1, five) == 0 && info_hits == 6);

    CHECK(signal(SIGUSR1, plain) == (void (*)(int))(void *)info);
    CHECK(signal(SIGUSR1, SIG_IGN) == plain && raise(SIGUSR1) == 0);
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);

    memset(&sa, 0, sizeof sa);
    sa.sa_handler = plain;
    sa.sa_flags = (int)SA_RESETHAND;
    CHECK(sigaction(SIGCHLD, &sa, NULL) == 0);
    CHECK(raise(SIGCHLD) == 0 && raise(SIGCHLD) == 0 && plain_hits == 1); // then ignored by default
    CHECK(sigaction(SIGCHLD, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGKILL, &sa, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(4000, &sa, NULL) == -1 && errno == EINVAL);
    CHECK(signal(SIGSTOP, plain) == SIG_ERR && errno == EINVAL);
    puts("handlers as set");
    return done();
}
