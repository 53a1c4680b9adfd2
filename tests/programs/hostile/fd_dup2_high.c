// dup2 of a pipe over all high descriptors, then fork and exec: only the program's
// own bytes come out of the pipe.
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>

int main(int argc, char **argv) {
    int fds[2];
    char text[64] = {0};
    if (argc > 1) { // the exec'd self writes through an inherited descriptor
        churn(2, 300);
        CHECK(write(atoi(argv[1]), "child", 5) == 5);
        return 0;
    }
    struct rlimit limit = {1024, 1024};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    churn(2, 300);
    CHECK(pipe(fds) == 0);
    for (int fd = 100; fd < 1024; fd++) CHECK(dup2(fds[1], fd) == fd);
    churn(4, 2000);
    CHECK(write(1023, "parent ", 7) == 7);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], "555", (char *)NULL);
        _exit(98);
    }
    expect_exit(pid, 0);
    for (int fd = 100; fd < 1024; fd++) CHECK(close(fd) == 0);
    CHECK(close(fds[1]) == 0);
    CHECK(read(fds[0], text, sizeof text) == 12 && strcmp(text, "parent child") == 0);
    CHECK(read(fds[0], text, sizeof text) == 0);
    puts("pipe intact");
    return done();
}
