// Recursion 100,000 frames deep, in two threads with large stacks, several times:
// anything that mirrors the call stack must grow or degrade, not die.
#include "check.h"

enum { DEPTH = 100000 };
static long shared;

__attribute__((noinline)) static long dive(int depth, long *below) {
    long here = depth;
    if (depth == 0) return *below;
    long r = dive(depth - 1, &here);
    ADD(shared, 1);
    return r + (here & 1);
}

static void *diver(void *arg) {
    long zero = 0;
    for (int i = 0; i < 3; i++) CHECK(dive(DEPTH, &zero) == 1 + DEPTH / 2);
    return arg;
}

int main(void) {
    pthread_attr_t attr;
    pthread_t a, b;
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 256UL << 20) == 0);
    CHECK(pthread_create(&a, &attr, diver, NULL) == 0 && pthread_create(&b, &attr, diver, NULL) == 0);
    join(a);
    join(b);
    CHECK(shared == 6L * DEPTH);
    puts("100000 frames");
    return done();
}
