// The interpreter uses a cached property when the cache says that it is full. The flush
// drops the entry first and clears the flag second; a lookup between the two follows a
// null pointer.
// Fixed: one lock covers entry and flag.

#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

struct Property {
    int slot;
};

struct PropertyCache {
    std::atomic<Property *> entry{nullptr};
    std::atomic<bool> full{false};
    std::mutex lock;
};

static PropertyCache cache;
static Property length_property{7};
static int hits;

__attribute__((noinline)) static void fill()
{
    std::lock_guard<std::mutex> hold(cache.lock);
    cache.entry.store(&length_property);
    cache.full.store(true);
}

__attribute__((noinline)) static void flush()
{
    std::lock_guard<std::mutex> hold(cache.lock);
    cache.entry.store(nullptr);
    cache.full.store(false);
}

__attribute__((noinline)) static int lookup()
{
    std::lock_guard<std::mutex> hold(cache.lock);
    if (!cache.full.load())
        return 7;
    hits++;
    return cache.entry.load()->slot;
}

int main()
{
    fill();
    int sum = 0;
    std::thread interpreter([&] { sum = lookup() + lookup(); });
    std::thread collector([] { flush(); });
    interpreter.join();
    collector.join();
    std::printf("slots %d, hits at most %d\n", sum, hits >= 0 ? 2 : 0);
    return sum == 14 ? 0 : 1;
}
