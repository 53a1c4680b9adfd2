//@ flags: -std=c++20
// C++20 coroutines resumed on another thread at every step, with an exception
// thrown out of one of them.
#include "check.h"
#include <coroutine>
#include <exception>
#include <stdexcept>
#include <thread>

static long shared;

struct Task {
    struct promise_type {
        std::exception_ptr error;
        Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { error = std::current_exception(); }
    };
    std::coroutine_handle<promise_type> handle;
};

static Task counter(int steps) {
    for (int i = 0; i < steps; i++) {
        ADD(shared, 1);
        co_await std::suspend_always{};
    }
    throw std::runtime_error("end of steps");
}

int main() {
    Task a = counter(50), b = counter(50);
    while (!a.handle.done()) {
        std::thread left([&] { a.handle.resume(); }), right([&] { b.handle.resume(); });
        left.join();
        right.join();
    }
    CHECK(b.handle.done() && shared == 100);
    try {
        std::rethrow_exception(a.handle.promise().error);
    } catch (const std::runtime_error &e) {
        puts(e.what());
    }
    a.handle.destroy();
    b.handle.destroy();
    return done();
}
