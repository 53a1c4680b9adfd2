//@ exit: 42
// _exit: no handler runs, nothing is flushed; _Exit and exit_group do the same.
#include "check.h"
#include <sys/syscall.h>

static void never(void) { _exit(1); }
__attribute__((destructor)) static void never_either(void) { _exit(1); }

int main(void) {
    churn(2, 300);
    CHECK(atexit(never) == 0);
    pid_t pid = fork();
    if (pid == 0) _Exit(300); // the low byte counts
    expect_exit(pid, 300 & 255);
    pid = fork();
    if (pid == 0) syscall(SYS_exit_group, 43);
    expect_exit(pid, 43);
    done();
    printf("never flushed");
    _exit(42);
}
