//@ exit: 5
// quick_exit runs at_quick_exit handlers only, in reverse order, from a thread.
#include "check.h"

static long shared;
static void one(void) { done(); }
static void two(void) { CHECK(shared == 1); puts("two"); }
static void never(void) { _exit(1); }

static void *leaver(void *arg) {
    (void)arg;
    shared = 1;
    quick_exit(5);
}

int main(void) {
    churn(2, 300);
    CHECK(atexit(never) == 0 && at_quick_exit(one) == 0 && at_quick_exit(two) == 0);
    join(spawn(leaver, NULL));
}
