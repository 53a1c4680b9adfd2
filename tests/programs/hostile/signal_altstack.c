// sigaltstack: a handler on it sees it, and a stack overflow in a thread is caught
// there and left by siglongjmp, ten times.
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static char *alt_stack;
static long shared;
enum { ALT = 64 * 1024 };

static void on_fault(int sig) {
    char here;
    (void)sig;
    CHECK(&here >= alt_stack && &here < alt_stack + ALT);
    ADD(shared, 1);
    if (sig == SIGSEGV) siglongjmp(back, 1);
}

__attribute__((noinline)) static long dig(volatile char *above, long n) {
    volatile char room[512];
    room[0] = above[0];
    long r = dig(room, n + 1) + room[0];
    return r + above[0];
}

static void *overflower(void *arg) {
    stack_t ss = {0}, old;
    (void)arg;
    ss.ss_sp = alt_stack = malloc(ALT);
    ss.ss_size = ALT;
    CHECK(sigaltstack(&ss, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0);
    for (volatile int i = 0; i < 10; i++) {
        volatile char top = 1;
        if (sigsetjmp(back, 1) == 0) dig(&top, 0);
    }
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_sp == alt_stack && old.ss_flags == 0);
    ss.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&ss, NULL) == 0);
    free(alt_stack);
    return NULL;
}

int main(void) {
    struct sigaction sa = {0};
    sa.sa_handler = on_fault;
    sa.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGSEGV, &sa, NULL) == 0 && sigaction(SIGUSR1, &sa, NULL) == 0);
    pthread_attr_t attr;
    pthread_t t;
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 256 * 1024) == 0);
    CHECK(pthread_create(&t, &attr, overflower, NULL) == 0);
    join(t);
    CHECK(shared == 11);
    churn(2, 300);
    puts("10 overflows survived");
    return done();
}
