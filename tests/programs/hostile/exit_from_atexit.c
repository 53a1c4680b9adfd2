//@ exit: 31
// An atexit handler that ends the process by _exit with a status of its own.
#include "check.h"

static void final(void) {
    churn(2, 300);
    done();
    _exit(31);
}

int main(void) {
    CHECK(atexit(final) == 0);
    return 0;
}
