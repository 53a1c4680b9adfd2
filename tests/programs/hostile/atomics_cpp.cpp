//@ flags: -std=c++20 -latomic
// std::atomic of integers, pointers, bool, double and a struct; atomic_ref, wait
// and notify, shared_ptr counts, and the C++20 latch, barrier and semaphore.
#include "check.h"
#include <atomic>
#include <barrier>
#include <latch>
#include <memory>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <vector>

struct Small {
    short a, b;
};
static std::atomic<double> sum{0};
static std::atomic<Small> small{Small{0, 0}};
static std::atomic<int *> cursor;
static std::atomic<bool> flag;
static int cells[4000], plain;

int main() {
    auto counted = std::make_shared<int>(5);
    std::latch start(4);
    std::barrier<> meet(4);
    std::counting_semaphore<2> two(2);
    std::atomic<int> inside{0};
    cursor = cells;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; t++)
            threads.emplace_back([&] {
                start.arrive_and_wait();
                for (int i = 0; i < 1000; i++) {
                    sum.fetch_add(0.5);
                    *cursor.fetch_add(1) += 1;
                    Small s = small.load(std::memory_order_acquire);
                    while (!small.compare_exchange_weak(s, Small{(short)(s.a + 1), (short)(s.b - 1)})) {
                    }
                    std::atomic_ref<int>(plain).fetch_add(1, std::memory_order_relaxed);
                    auto copy = counted;
                    if (i % 100 == 0) {
                        two.acquire();
                        CHECK(inside.fetch_add(1) < 2);
                        inside.fetch_sub(1);
                        two.release();
                        meet.arrive_and_wait();
                    }
                }
            });
    }
    CHECK(sum == 2000.0 && cursor == cells + 4000 && plain == 4000 && counted.use_count() == 1);
    for (int c : cells) CHECK(c == 1);
    CHECK(small.load().a == 4000 && small.load().b == -4000);
    std::thread waker([] {
        sleep_ms(3);
        flag.store(true);
        flag.notify_all();
    });
    flag.wait(false);
    waker.join();
    std::jthread stopping([](std::stop_token stop) { while (!stop.stop_requested()) std::this_thread::yield(); });
    CHECK(stopping.request_stop());
    stopping.join();
    puts("C++ atomics");
    return done();
}
