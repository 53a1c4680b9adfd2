// A working directory without write permission, and unprivileged where possible:
// nothing tries to leave files there, the directory stays empty.
#include "check.h"
#include <dirent.h>
#include <sys/stat.h>

int main(void) {
    CHECK(mkdir("locked", 0700) == 0 && chdir("locked") == 0 && chmod(".", 0555) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (getuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        churn(3, 500);
        exit(6);
    }
    expect_exit(pid, 6);
    churn(3, 500);
    int entries = 0;
    DIR *dir = opendir(".");
    CHECK(dir);
    while (readdir(dir)) entries++;
    closedir(dir);
    CHECK(entries == 2);
    CHECK(chdir("..") == 0 && rmdir("locked") == 0);
    puts("nothing left behind");
    return done();
}
