// RLIMIT_FSIZE of 8 KiB: the program's own large write fails with EFBIG after the
// SIGXFSZ that it handles; no other SIGXFSZ ever comes.
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static long excess;
static void on_xfsz(int sig) { (void)sig; ADD(excess, 1); }

int main(void) {
    struct rlimit limit = {8192, 8192};
    static char block[8192];
    churn(2, 300);
    CHECK(signal(SIGXFSZ, on_xfsz) == SIG_DFL);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    churn(4, 3000);
    CHECK(LOAD(excess) == 0);
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && write(fd, block, 8192) == 8192);
    CHECK(write(fd, block, 1) == -1 && errno == EFBIG && LOAD(excess) == 1);
    pid_t pid = fork();
    if (pid == 0) {
        churn(3, 1000);
        _exit(LOAD(excess) == 1 ? 0 : 1);
    }
    expect_exit(pid, 0);
    CHECK(LOAD(excess) == 1);
    puts("small files only");
    return done();
}
