// chdir into a directory that is then removed: getcwd fails, work and exit do not;
// a child that is forked there works as well.
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

int main(void) {
    char path[4096];
    churn(2, 300);
    CHECK(mkdir("gone", 0700) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0);
    CHECK(getcwd(path, sizeof path) == NULL && errno == ENOENT);
    CHECK(open("file", O_CREAT | O_RDWR, 0600) == -1 && errno == ENOENT);
    churn(3, 1000);
    pid_t pid = fork();
    if (pid == 0) {
        churn(2, 300);
        exit(4);
    }
    expect_exit(pid, 4);
    puts("no directory");
    return done();
}
