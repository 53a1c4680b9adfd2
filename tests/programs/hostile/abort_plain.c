//@ signal: SIGABRT
// abort() from a second thread while others work.
#include "check.h"

static long shared;

static void *hammer(void *arg) {
    (void)arg;
    for (;;) ADD(shared, 1);
    return NULL;
}

static void *aborter(void *arg) {
    (void)arg;
    while (LOAD(shared) < 1000) usleep(50);
    abort();
}

int main(void) {
    puts("about to abort");
    fflush(stdout);
    spawn(hammer, NULL);
    join(spawn(aborter, NULL));
}
