// The classic daemon: double fork, setsid, chdir, stdio to /dev/null, and work
// in the grandchild that outlives its parents; the first process sees the result.
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

int main(void) {
    int result[2];
    churn(2, 300);
    CHECK(pipe(result) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(setsid() > 0);
        if (fork() != 0) _exit(0);
        for (int i = 0; i < 500 && getppid() != 1; i++) usleep(1000);
        CHECK(chdir("/") == 0);
        umask(0);
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++) CHECK(dup2(null, fd) == fd);
        for (int fd = 3; fd < 256; fd++)
            if (fd != result[1]) close(fd);
        churn(3, 500);
        CHECK(write(result[1], "daemon worked", 14) == 14);
        exit(0);
    }
    close(result[1]);
    expect_exit(pid, 0);
    char text[32] = {0};
    CHECK(read(result[0], text, sizeof text) == 14);
    CHECK(read(result[0], text + 14, 1) == 0); // the daemon ended, nothing else was written
    puts(text);
    return done();
}
