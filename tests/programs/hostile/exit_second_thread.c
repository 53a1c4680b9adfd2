//@ exit: 17
// exit() from a second thread, with atexit handlers that make and join threads,
// while main is blocked in join and another thread hammers.
#include "check.h"

static long shared;

static void last(void) { puts("EXIT-SUCCESS"); }
static void first(void) {
    churn(2, 300);
    puts("atexit, with threads");
}
static void on(int status, void *arg) { printf("on_exit %d %s\n", status, (char *)arg); }

static void *hammer(void *arg) {
    (void)arg;
    for (;;) ADD(shared, 1);
    return NULL;
}

static void *leaver(void *arg) {
    (void)arg;
    while (LOAD(shared) < 1000) usleep(50);
    exit(17);
}

int main(void) {
    CHECK(atexit(last) == 0 && on_exit(on, (void *)"argument") == 0 && atexit(first) == 0);
    spawn(hammer, NULL);
    join(spawn(leaver, NULL));
    puts("not reached");
    return 0;
}
