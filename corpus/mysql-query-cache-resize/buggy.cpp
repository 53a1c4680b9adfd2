// Resizing frees the bins and allocates new ones. A query that is cached in between finds no
// bins at all.

#include <cstdio>
#include <mutex>
#include <thread>

struct Bin {
    int blocks;
};

static Bin small_bins[4];
static Bin large_bins[8];
static Bin *bins = small_bins;
static int freed;
static std::mutex structure_guard;

__attribute__((noinline)) static void free_cache()
{
    bins = nullptr; //~ guilty
    freed++;
}

__attribute__((noinline)) static void init_cache()
{
    bins = large_bins; //~ guilty
}

static void resize()
{
    std::lock_guard<std::mutex> hold(structure_guard);
    free_cache();
    init_cache();
}

static void store_query(int hash)
{
    bins[hash % 4].blocks++; //~ guilty
}

int main()
{
    std::thread admin([] { resize(); });
    std::thread client([] { store_query(6); });
    admin.join();
    client.join();
    int stored = small_bins[2].blocks + large_bins[2].blocks;
    std::printf("%d block stored\n", stored);
    return stored == 1 ? 0 : 1;
}
