// fork from a thread other than main: the forking thread is the child's only one.
#include "check.h"
#include <sys/syscall.h>

static __thread int mark;
static long shared;

static void *forker(void *arg) {
    (void)arg;
    mark = 42;
    shared = 5;
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(mark == 42 && shared == 5);
        CHECK(getpid() == syscall(SYS_gettid));
        shared = 6;
        churn(2, 300);
        // The child's last thread may leave by pthread_exit: status 0.
        pthread_exit(NULL);
    }
    expect_exit(pid, 0);
    return &shared;
}

int main(void) {
    churn(2, 300);
    CHECK(join(spawn(forker, NULL)) == &shared);
    CHECK(shared == 5 && mark == 0);
    churn(2, 300);
    puts("forked from a second thread");
    return done();
}
