//@ signal: SIGTERM
// A signal with its default action ends a multithreaded process at once.
#include "check.h"
#include <signal.h>

static long shared;

static void *hammer(void *arg) {
    (void)arg;
    for (;;) ADD(shared, 1);
    return NULL;
}

int main(void) {
    spawn(hammer, NULL);
    while (LOAD(shared) < 1000) usleep(50);
    puts("about to be terminated");
    fflush(stdout);
    kill(getpid(), SIGTERM);
    for (;;) pause();
}
