// Children made behind libc's back: syscall(SYS_fork), clone() with an own stack,
// and clone(CLONE_VM | CLONE_VFORK) as posix_spawn makes them.
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

static long shared = 1;
static char stack[256 * 1024] __attribute__((aligned(64)));

static int separate(void *arg) {
    for (int i = 0; i < 1000; i++) shared += (long)arg;
    return shared == 1 + 2000 ? 11 : 12;
}

static int same_memory(void *arg) {
    for (int i = 0; i < 1000; i++) ADD(shared, (long)arg);
    return 13;
}

int main(void) {
    churn(2, 300);
    for (int i = 0; i < 5; i++) {
        pid_t pid = (pid_t)syscall(SYS_fork);
        if (pid == 0) {
            for (int k = 0; k < 1000; k++) shared++;
            syscall(SYS_exit_group, shared == 1001 ? 10 : 12);
        }
        expect_exit(pid, 10);
        CHECK(shared == 1);
        expect_exit(clone(separate, stack + sizeof stack, SIGCHLD, (void *)2), 11);
        CHECK(shared == 1);
        expect_exit(clone(same_memory, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)3), 13);
        CHECK(shared == 3001);
        shared = 1;
    }
    churn(2, 300);
    puts("raw children");
    return done();
}
