//@ signal: SIGSEGV
// A real crash in a second thread, nobody handling it, stays a real crash.
#include "check.h"

static volatile int *nowhere;

static void *crash(void *arg) {
    (void)arg;
    *nowhere = 1;
    return NULL;
}

int main(void) {
    churn(2, 300);
    puts("about to crash");
    fflush(stdout);
    join(spawn(crash, NULL));
    puts("not reached");
    return 0;
}
