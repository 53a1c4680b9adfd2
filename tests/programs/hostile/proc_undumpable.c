// PR_SET_DUMPABLE off (no access to one's own /proc files as another user), all
// privileges dropped, then threads, fork and a clean exit.
#include "check.h"
#include <sys/prctl.h>

int main(void) {
    churn(2, 300);
    pid_t pid = fork();
    if (pid == 0) {
        if (getuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        churn(3, 500);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            churn(2, 300);
            exit(3);
        }
        expect_exit(grandchild, 3);
        exit(4);
    }
    expect_exit(pid, 4);
    puts("no privileges");
    return done();
}
