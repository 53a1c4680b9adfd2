// Exceptions out of callbacks that C library code calls: qsort and bsearch
// comparators, nftw-like recursion through a function pointer; in two threads.
#include "check.h"
#include <stdexcept>
#include <thread>

static long compared, thrown;

static int picky(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    ADD(compared, 1);
    if (x == 13 || y == 13) throw std::domain_error("thirteen");
    return (x > y) - (x < y);
}

static void each(void (*f)(int) noexcept(false), int n) {
    for (int i = 0; i < n; i++) f(i);
}

static void worker() {
    for (int round = 0; round < 200; round++) {
        int v[32], key = 13;
        for (int i = 0; i < 32; i++) v[i] = 31 - i;
        try {
            qsort(v, 32, sizeof v[0], picky);
        } catch (const std::domain_error &) {
            ADD(thrown, 1);
        }
        try {
            bsearch(&key, v, 32, sizeof v[0], picky);
        } catch (const std::domain_error &) {
            ADD(thrown, 1);
        }
        try {
            each([](int i) { if (i == 5) throw i; }, 10);
        } catch (int i) {
            ADD(thrown, i == 5);
        }
    }
}

int main() {
    std::thread a(worker), b(worker);
    a.join();
    b.join();
    CHECK(thrown == 1200 && compared > 0);
    puts("1200 thrown through C");
    return done();
}
