// An indirect function whose instrumented resolver runs while the program is
// still being relocated, before any constructor.
#include "check.h"

static int resolved;
static int chosen(int x) { return x * 2; }
static int other(int x) { return x * 3; }

static int (*resolve_twice(void))(int) {
    __builtin_cpu_init();
    resolved++;
    return __builtin_cpu_supports("sse2") ? chosen : other;
}
int twice(int x) __attribute__((ifunc("resolve_twice")));

static void *worker(void *arg) { return (void *)(long)twice((int)(long)arg); }

int main(void) {
    CHECK(resolved >= 1);
    CHECK(twice(21) == 42);
    CHECK(join(spawn(worker, (void *)4)) == (void *)8);
    churn(2, 300);
    puts("resolved");
    return done();
}
