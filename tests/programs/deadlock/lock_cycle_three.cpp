//@ deadlock: some
//@ timeout: 5
// Three philosophers.
#include "../hostile/check.h"
#include <mutex>
#include <thread>

static std::mutex fork_[3];

static void dine(int me) {
    for (int i = 0; i < 5; i++) std::lock_guard<std::mutex> left(fork_[me]), right(fork_[(me + 1) % 3]);
}

int main() {
    std::thread a(dine, 0), b(dine, 1), c(dine, 2);
    a.join();
    b.join();
    c.join();
    return done();
}
