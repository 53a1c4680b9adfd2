// SIGPIPE ignored gives EPIPE; a child with the default disposition dies of it.
#include "check.h"
#include <signal.h>

int main(void) {
    int fds[2], status;
    churn(2, 300);
    CHECK(signal(SIGPIPE, SIG_IGN) == SIG_DFL);
    CHECK(pipe(fds) == 0 && close(fds[0]) == 0);
    for (int i = 0; i < 100; i++) CHECK(write(fds[1], "x", 1) == -1 && errno == EPIPE);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        CHECK(write(fds[1], "x", 1) == 1);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
    churn(2, 300);
    puts("broken pipes");
    return done();
}
