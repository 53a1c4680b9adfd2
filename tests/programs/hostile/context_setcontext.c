// getcontext / setcontext as a loop: jumps back into a live frame 5,000 times.
#include "check.h"
#include <ucontext.h>

static long shared;

__attribute__((noinline)) static void back(ucontext_t *to, int depth) {
    ADD(shared, 1);
    if (depth == 0) setcontext(to);
    back(to, depth - 1);
    shared = -1; // never reached
}

static void *looper(void *arg) {
    ucontext_t here;
    volatile int times = 0;
    CHECK(getcontext(&here) == 0);
    times++;
    if (times <= 5000) back(&here, times % 5);
    return (void *)(long)(times + (long)arg);
}

int main(void) {
    pthread_t a = spawn(looper, (void *)0), b = spawn(looper, (void *)1);
    CHECK(join(a) == (void *)5001 && join(b) == (void *)5002);
    CHECK(shared == 2 * (5000 + 2 * 5000));
    puts("5000 setcontext");
    return done();
}
