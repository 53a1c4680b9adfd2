// The pointer is stored first and the object filled in second, both under the lock. The fast path
// looks at the pointer without the lock and can use an object that is still empty.
// Fixed: the object is filled in before the pointer is stored.

#include <atomic>
#include <cassert>
#include <cstdio>
#include <mutex>
#include <thread>

struct Settings {
    std::atomic<int> port{0};
};

static Settings storage;
static std::atomic<Settings *> instance{nullptr};
static std::mutex create_lock;

__attribute__((noinline)) static Settings *get_settings()
{
    Settings *seen = instance.load(std::memory_order_acquire);
    if (!seen) {
        std::lock_guard<std::mutex> hold(create_lock);
        seen = instance.load(std::memory_order_relaxed);
        if (!seen) {
            seen = &storage;
            seen->port.store(8080, std::memory_order_relaxed);
            instance.store(seen, std::memory_order_release);
        }
    }
    return seen;
}

static void use_settings()
{
    int port = get_settings()->port.load(std::memory_order_relaxed);
    assert(port == 8080);
}

int main()
{
    std::thread a(use_settings);
    std::thread b(use_settings);
    a.join();
    b.join();
    std::puts("settings used twice");
    return 0;
}
