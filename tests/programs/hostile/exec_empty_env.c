// execve of oneself with an empty environment, then with an empty argv.
#include "check.h"

extern char **environ;

int main(int argc, char **argv) {
    static char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    CHECK(n > 0);
    churn(2, 300);
    if (argc == 1 && argv[0][0] != '\0') {
        char *next[] = {(char *)"", (char *)"bare", NULL}, *none[] = {NULL};
        execve(exe, next, none);
        _exit(98);
    }
    CHECK(environ && environ[0] == NULL);
    CHECK(getenv("PATH") == NULL);
    if (argc == 2) {
        CHECK(argv[0][0] == '\0' && strcmp(argv[1], "bare") == 0);
        puts("empty environment");
        fflush(stdout);
        char *none[] = {NULL};
        execve(exe, none, none); // Linux makes this argv = {""}
        _exit(98);
    }
    puts("empty argv");
    return done();
}
