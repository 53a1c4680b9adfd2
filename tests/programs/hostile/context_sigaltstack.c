//@ flags: -U_FORTIFY_SOURCE
// Coroutines made with the sigaltstack trick: a handler entered on a fresh stack
// saves itself with sigsetjmp and is later resumed by siglongjmp.
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static jmp_buf coroutine, home, maker;
static char fresh[128 * 1024] __attribute__((aligned(64)));
static long shared;

__attribute__((noinline)) static void coroutine_body(void) {
    for (;;) {
        for (int i = 0; i < 10; i++) ADD(shared, 1);
        if (_setjmp(coroutine) == 0) _longjmp(home, 1);
    }
}

static void enter(int sig) {
    (void)sig;
    if (_setjmp(coroutine) == 0) return; // leave the handler normally
    coroutine_body();                    // resumed on this stack, no handler any more
}

int main(void) {
    stack_t alt = {0}, old;
    struct sigaction sa = {0};
    churn(2, 300);
    alt.ss_sp = fresh;
    alt.ss_size = sizeof fresh;
    CHECK(sigaltstack(&alt, &old) == 0);
    sa.sa_handler = enter;
    sa.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    if (_setjmp(maker) == 0) raise(SIGUSR1);
    alt.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&alt, NULL) == 0);
    for (volatile int i = 0; i < 1000; i++)
        if (_setjmp(home) == 0) _longjmp(coroutine, 1);
    CHECK(shared == 10000);
    churn(2, 300);
    puts("1000 resumes");
    return done();
}
