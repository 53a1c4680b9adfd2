// Flow that leaves a mark in the graph: a handler, a destructor, calls that do not come back, calls through a pointer.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

int total;
int *shared = &total;

struct Guard {
    ~Guard() { total++; }
};

extern "C" __attribute__((noinline)) void stop(int code) {
    std::puts("stop");
    std::exit(code);
}

extern "C" __attribute__((noinline)) int may_throw(int x) {
    if (x > 3) throw std::runtime_error("too many");
    return x * 2;
}

extern "C" __attribute__((noinline)) int catches(int x) {
    try {
        Guard guard;
        return may_throw(x);
    } catch (const std::runtime_error &) {
        return -1;
    }
}

extern "C" __attribute__((noinline)) int twice(int x) { return 2 * x; }
extern "C" __attribute__((noinline)) int never_called(int x) { return 3 * x; }

int (*chosen)(int) = twice;

extern "C" __attribute__((noinline)) int through(int x) {
    if (x < 0) stop(1);
    return chosen(x) + total;
}

extern "C" __attribute__((noinline)) void field(int *p) {
    p[2] = p[2] + total;
    if (*shared) *shared = 7;
}

int main(int argc, char **) {
    int some[4] = {};
    field(some);
    return catches(argc) + through(argc) + some[2] == 4 ? 0 : never_called(0) + 1;
}
