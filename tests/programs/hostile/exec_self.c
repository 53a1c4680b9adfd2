//@ env: HOSTILE_COLOUR=teal
// exec of oneself with changed argv and inherited environment, from a process
// with running threads; exec from a second thread too.
#include "check.h"

static int stop;
static long shared;
static char *self = (char *)"/proc/self/exe";

static void *hammer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) ADD(shared, 1);
    return NULL;
}

static void *exec_third(void *arg) {
    (void)arg;
    execl(self, "a name with spaces", "third", (char *)NULL);
    _exit(98);
}

int main(int argc, char **argv) {
    CHECK(strcmp(getenv("HOSTILE_COLOUR"), "teal") == 0);
    churn(2, 300);
    if (argc == 1) {
        CHECK(!getenv("HOSTILE_STEP"));
        puts("first");
        fflush(stdout);
        spawn(hammer, NULL);
        setenv("HOSTILE_STEP", "2", 1);
        execl(self, "renamed", "second", (char *)NULL);
        _exit(98);
    }
    CHECK(strcmp(getenv("HOSTILE_STEP"), "2") == 0);
    if (strcmp(argv[1], "second") == 0) {
        printf("second as %s\n", argv[0]);
        fflush(stdout);
        join(spawn(exec_third, NULL));
    }
    CHECK(argc == 2 && strcmp(argv[1], "third") == 0);
    printf("third as %s\n", argv[0]);
    return done();
}
