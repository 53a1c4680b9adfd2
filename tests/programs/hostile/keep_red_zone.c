// Leaf functions that use the red zone, without instrumentation, interrupted by
// instrumented signal handlers; and conventions of calls: variadic functions with
// floating arguments, large and small structs by value, many arguments.
#include "check.h"
#include <signal.h>
#include <stdarg.h>
#include <sys/time.h>

static long shared, ticks;
static void on_alarm(int sig) { char room[300]; memset(room, sig, sizeof room); ADD(ticks, room[299] == sig); shared++; }

__attribute__((noinline, no_sanitize("thread"))) static long leaf(long a, long b) {
    volatile long zone[14];
    for (int i = 0; i < 14; i++) zone[i] = a + i;
    for (int i = 0; i < 14; i++) zone[i] += b;
    long sum = 0;
    for (int i = 0; i < 14; i++) sum += zone[i];
    return sum;
}

static double sum(int n, ...) {
    va_list ap, twice;
    double total = 0;
    va_start(ap, n);
    va_copy(twice, ap);
    for (int i = 0; i < n; i++) total += i % 2 ? va_arg(ap, double) : (double)va_arg(ap, long);
    for (int i = 0; i < n; i++) total += i % 2 ? va_arg(twice, double) : (double)va_arg(twice, long);
    va_end(twice);
    va_end(ap);
    ADD(shared, 1);
    return total;
}

struct mixed { long a; double b; };
struct big { long v[20]; };
__attribute__((noinline)) static struct mixed mix(struct mixed m, struct big b, char c, float f) {
    ADD(shared, 1);
    struct mixed r = {m.a + b.v[19] + c, m.b + f};
    return r;
}
__attribute__((noinline)) static struct big grow(struct big b, long a1, long a2, long a3, long a4, long a5, long a6, long a7) {
    b.v[0] += a1 + a2 * 2 + a3 * 3 + a4 * 4 + a5 * 5 + a6 * 6 + a7 * 7;
    ADD(shared, 1);
    return b;
}
__attribute__((noinline)) static unsigned __int128 wide(unsigned __int128 x) { ADD(shared, 1); return x * 3; }

int main(void) {
    struct itimerval every = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    CHECK(signal(SIGALRM, on_alarm) == SIG_DFL && setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (long i = 0; i < 200000; i++) CHECK(leaf(i, 5) == 14 * (i + 5) + 91);
    struct big b = {{0}};
    for (int i = 0; i < 20000; i++) {
        CHECK(sum(10, 1L, 2.5, 3L, 4.5, 5L, 6.5, 7L, 8.5, 9L, 10.5) == 115.0);
        b.v[19] = i;
        struct mixed r = mix((struct mixed){7, 1.5}, b, 3, 2.0f);
        CHECK(r.a == i + 10 && r.b == 3.5);
        CHECK(grow(b, 1, 1, 1, 1, 1, 1, 1).v[0] == 28 && grow(b, 0, 0, 0, 0, 0, 0, 1).v[19] == i);
        CHECK(wide((unsigned __int128)1 << 100) == (unsigned __int128)3 << 100);
    }
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    churn(2, 300);
    puts("conventions kept");
    return done();
}
