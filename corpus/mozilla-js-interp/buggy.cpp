// The interpreter uses a cached property when the cache says that it is full. The flush
// drops the entry first and clears the flag second; a lookup between the two follows a
// null pointer.

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
};

static PropertyCache cache;
static Property length_property{7};
static int hits;

__attribute__((noinline)) static void fill()
{
    cache.entry.store(&length_property);
    cache.full.store(true);
}

__attribute__((noinline)) static void flush()
{
    cache.entry.store(nullptr); //~ guilty
    cache.full.store(false); //~ guilty
}

__attribute__((noinline)) static int lookup()
{
    if (!cache.full.load()) //~ guilty
        return 7;
    hits++;
    return cache.entry.load()->slot; //~ guilty
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
