// C++ exceptions through many instrumented frames in four threads at once, with
// destructors that lock; rethrow and exception_ptr across threads.
#include "check.h"
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static long unwound, caught;

struct Frame {
    ~Frame() {
        std::lock_guard<std::mutex> g(lock);
        unwound++;
    }
};

__attribute__((noinline)) static int dive(int depth) {
    Frame f;
    if (depth == 0) throw std::runtime_error("bottom");
    return dive(depth - 1) + 1;
}

static void worker() {
    for (int i = 0; i < 500; i++) {
        try {
            try {
                dive(i % 8);
            } catch (const std::exception &) {
                throw;
            }
        } catch (const std::runtime_error &e) {
            CHECK(std::string(e.what()) == "bottom");
            std::lock_guard<std::mutex> g(lock);
            caught++;
        }
    }
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(worker);
    for (auto &t : threads) t.join();
    long frames = 0;
    for (int i = 0; i < 500; i++) frames += 1 + i % 8;
    CHECK(caught == 2000 && unwound == 4 * frames);
    std::exception_ptr carried;
    std::thread([&] {
        try {
            dive(3);
        } catch (...) {
            carried = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(carried);
    } catch (const std::runtime_error &e) {
        printf("carried %s\n", e.what());
    }
    return done();
}
