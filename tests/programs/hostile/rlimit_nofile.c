// RLIMIT_NOFILE lowered to what is open: no new descriptor can be had, threads and
// locks go on; raised again, files can be opened.
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>

int main(void) {
    struct rlimit old, tiny;
    churn(2, 300);
    int lowest = open("/dev/null", O_RDONLY);
    CHECK(lowest >= 3 && close(lowest) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    tiny = old;
    tiny.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &tiny) == 0);
    CHECK(open("/dev/null", O_RDONLY) == -1 && errno == EMFILE);
    churn(4, 2000);
    pid_t pid = fork();
    if (pid == 0) {
        churn(2, 300);
        exit(2);
    }
    expect_exit(pid, 2);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    int fd = open("/dev/null", O_RDONLY);
    CHECK(fd == lowest && close(fd) == 0);
    churn(2, 300);
    puts("no descriptors to spare");
    return done();
}
