// Signals taken synchronously: sigprocmask, sigpending, sigwait, sigtimedwait,
// sigsuspend and signalfd, with a thread that sends.
#include "check.h"
#include <signal.h>
#include <sys/signalfd.h>

static pthread_t main_thread;
static int hits, go;

static void on_usr2(int sig) { (void)sig; ADD(hits, 1); }

static void *sender(void *arg) {
    for (int i = 0; i < 50; i++) {
        while (LOAD(go) <= i) usleep(20);
        CHECK(pthread_kill(main_thread, (int)(long)arg) == 0);
    }
    return NULL;
}

int main(void) {
    sigset_t set, old, pending;
    int sig;
    siginfo_t info;
    struct timespec brief = {0, 1000000};
    churn(2, 300);
    main_thread = pthread_self();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0 && !sigismember(&old, SIGUSR1));
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
    CHECK(sigwait(&set, &sig) == 0 && sig == SIGUSR1);
    CHECK(sigtimedwait(&set, &info, &brief) == -1 && errno == EAGAIN);

    pthread_t t = spawn(sender, (void *)SIGUSR1);
    for (int i = 0; i < 50; i++) {
        ADD(go, 1);
        CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == getpid());
    }
    join(t);
    STORE(go, 0);
    CHECK(signal(SIGUSR2, on_usr2) == SIG_DFL);
    t = spawn(sender, (void *)SIGUSR2);
    for (int i = 0; i < 50; i++) {
        ADD(go, 1);
        CHECK(sigsuspend(&old) == -1 && errno == EINTR);
        CHECK(LOAD(hits) == i + 1);
    }
    join(t);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    struct signalfd_siginfo si;
    CHECK(fd >= 0 && kill(getpid(), SIGUSR1) == 0);
    CHECK(read(fd, &si, sizeof si) == sizeof si && si.ssi_signo == SIGUSR1);
    puts("waited for signals");
    return done();
}
