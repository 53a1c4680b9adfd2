//@ env: HOSTILE_WARP=one
//@ env: HOSTILE_WEFT=two words
// The environment is the user's: variables arrive, can be changed, cleared and set
// anew, and a child sees just that.
#include "check.h"

extern char **environ;

int main(void) {
    CHECK(strcmp(getenv("HOSTILE_WARP"), "one") == 0 && strcmp(getenv("HOSTILE_WEFT"), "two words") == 0);
    churn(2, 300);
    CHECK(setenv("HOSTILE_WARP", "changed", 1) == 0 && unsetenv("HOSTILE_WEFT") == 0);
    CHECK(system("test \"$HOSTILE_WARP\" = changed -a -z \"$HOSTILE_WEFT\"") == 0);
    CHECK(clearenv() == 0 && getenv("HOSTILE_WARP") == NULL);
    CHECK(putenv((char *)"ONLY=this") == 0);
    churn(2, 300);
    CHECK(strcmp(environ[0], "ONLY=this") == 0 && environ[1] == NULL);
    pid_t pid = fork();
    if (pid == 0) {
        churn(2, 300);
        CHECK(environ[1] == NULL);
        exit(0);
    }
    expect_exit(pid, 0);
    puts("environment kept");
    return done();
}
