// longjmp out of several instrumented frames 100,000 times, in two threads at
// once: a shadow stack that is only popped by function exits would leak.
#include "check.h"
#include <setjmp.h>

static long shared;

__attribute__((noinline)) static int dive(jmp_buf back, int depth, int value) {
    ADD(shared, 1);
    if (depth == 0) longjmp(back, value);
    int r = dive(back, depth - 1, value) + 1;
    ADD(shared, r);
    return r;
}

static void *jumper(void *arg) {
    volatile long landed = 0;
    jmp_buf back;
    for (volatile int i = 0; i < 50000; i++) {
        if (setjmp(back) == 7) landed++;
        else dive(back, 1 + i % 6, 7);
    }
    if (_setjmp(back) == 0) _longjmp(back, 0); // 0 becomes 1
    else landed++;
    return (void *)(landed + (long)arg);
}

int main(void) {
    pthread_t a = spawn(jumper, (void *)0), b = spawn(jumper, (void *)1);
    CHECK(join(a) == (void *)50001 && join(b) == (void *)50002);
    long entered = 0;
    for (int i = 0; i < 50000; i++) entered += 2 + i % 6;
    CHECK(shared == 2 * entered);
    churn(2, 300);
    puts("100000 jumps");
    return done();
}
