// Floating-point state around hooks: many live SSE, AVX and x87 values across
// instrumented accesses, and the x87 and MXCSR control words as the program set
// them, with signals landing in between.
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static long shared[64], ticks;

static void on_alarm(int sig) { (void)sig; double d = 1.5; for (int i = 0; i < 20; i++) d = d * 1.25 + (double)shared[i]; ADD(ticks, d > 0); }

static unsigned mxcsr(void) { unsigned v; __asm__ volatile("stmxcsr %0" : "=m"(v)); return v; }
static unsigned short x87(void) { unsigned short v; __asm__ volatile("fnstcw %0" : "=m"(v)); return v; }

__attribute__((noinline)) static double many_live(int i) {
    double a = i, b = a + 1, c = b * 2, d = c - a, e = d / 3, f = e + c, g = f * a, h = g - b;
    long double x = a / 7.0L, y = x * x;
    ADD(shared[i % 64], 1);
    a += b * (double)(LOAD(shared[i % 64]) > 0);
    shared[(i + 1) % 64] ^= 1;
    y += x * (long double)(shared[(i + 2) % 64] >= 0);
    return a + b + c + d + e + f + g + h + (double)(x + y);
}

__attribute__((noinline)) static double model(int i) {
    double a = i, b = a + 1, c = b * 2, d = c - a, e = d / 3, f = e + c, g = f * a, h = g - b;
    long double x = a / 7.0L, y = x * x + x;
    a += b;
    return a + b + c + d + e + f + g + h + (double)(x + y);
}

typedef double wide __attribute__((vector_size(32)));
__attribute__((target("avx"), noinline)) static int wide_live(int i) {
    wide v = {i, i + 1, i + 2, i + 3}, w = v * v, u = w - v;
    for (int k = 0; k < 8; k++) {
        ADD(shared[k], 1);
        v = v + w;
        u = u + v;
    }
    return v[3] == (i + 3) + 8.0 * (i + 3) * (i + 3) && u[0] == (double)i * i - i + 8.0 * i + 36.0 * i * i;
}

int main(void) {
    struct itimerval every = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
    unsigned want_mxcsr = (mxcsr() & ~0x3fU) | 0x2000;         // round down, flags clear
    unsigned short want_x87 = (x87() & ~0x0f00) | 0x0600;      // 53-bit precision, round down
    churn(2, 300);
    CHECK(signal(SIGALRM, on_alarm) == SIG_DFL && setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (int i = 0; i < 30000; i++) CHECK(many_live(i) == model(i));
    if (__builtin_cpu_supports("avx"))
        for (int i = 0; i < 20000; i++) CHECK(wide_live(i));
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(want_mxcsr), "m"(want_x87));
    for (int i = 0; i < 20000; i++) CHECK(many_live(i) == model(i));
    CHECK((mxcsr() & ~0x3fU) == want_mxcsr && x87() == want_x87);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    puts("registers kept");
    return done();
}
