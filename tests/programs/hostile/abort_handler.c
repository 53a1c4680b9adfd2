//@ signal: SIGABRT
// abort() with a handler: left by siglongjmp it does not end the process; when
// the handler returns, it does.
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static volatile sig_atomic_t jump = 1;
static long shared;

static void on_abort(int sig) {
    (void)sig;
    ADD(shared, 1);
    if (jump) siglongjmp(back, 1);
    ssize_t n = write(1, "handler returns\n", 16);
    (void)n;
}

int main(void) {
    churn(2, 300);
    CHECK(signal(SIGABRT, on_abort) == SIG_DFL);
    if (sigsetjmp(back, 1) == 0) abort();
    CHECK(shared == 1);
    churn(2, 300);
    puts("escaped once");
    fflush(stdout);
    jump = 0;
    abort();
}
