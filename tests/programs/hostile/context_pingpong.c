// swapcontext / makecontext ping-pong over several contexts in one thread; each
// coroutine stays deep in instrumented calls between switches.
#include "check.h"
#include <ucontext.h>

enum { COROUTINES = 5, ROUNDS = 2000 };
static ucontext_t home, ctx[COROUTINES];
static char stacks[COROUTINES][64 * 1024] __attribute__((aligned(64)));
static long total, steps[COROUTINES];
static int running;

__attribute__((noinline)) static void step(int me, int depth) {
    if (depth > 0) {
        step(me, depth - 1);
        steps[me] += depth; // runs after the switch back
        return;
    }
    ADD(total, 1);
    CHECK(swapcontext(&ctx[me], &ctx[(me + 1) % COROUTINES]) == 0);
}

static void body(int me, int check) {
    CHECK(check == me * 3);
    for (int i = 0; i < ROUNDS; i++) step(me, i % 4);
    running--;
    if (running > 0) setcontext(&ctx[(me + 1) % COROUTINES]);
    // The last one falls off its end to uc_link.
}

int main(void) {
    churn(2, 300);
    running = COROUTINES;
    for (int i = 0; i < COROUTINES; i++) {
        CHECK(getcontext(&ctx[i]) == 0);
        ctx[i].uc_stack.ss_sp = stacks[i];
        ctx[i].uc_stack.ss_size = sizeof stacks[i];
        ctx[i].uc_link = &home;
        makecontext(&ctx[i], (void (*)(void))body, 2, i, i * 3);
    }
    CHECK(swapcontext(&home, &ctx[0]) == 0);
    CHECK(running == 0 && total == (long)COROUTINES * ROUNDS);
    for (int i = 0; i < COROUTINES; i++) CHECK(steps[i] == ROUNDS / 4 * 10);
    churn(2, 300);
    puts("5 coroutines, 2000 rounds");
    return done();
}
