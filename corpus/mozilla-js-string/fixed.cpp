// The engine keeps the number of strings and their total length to report the average.
// Each counter is updated atomically, the pair is not: a report between the two updates
// divides a total by a count that do not belong together.
// Fixed: one lock covers the pair, in the update and in the report.

#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

static std::atomic<long> length_sum{40};
static std::atomic<long> string_count{4};
static long average;
static std::mutex stats_lock;

// Every string of this program has ten characters.
__attribute__((noinline)) static void new_string(long length)
{
    std::lock_guard<std::mutex> hold(stats_lock);
    length_sum.fetch_add(length);
    string_count.fetch_add(1);
}

__attribute__((noinline)) static void report()
{
    std::lock_guard<std::mutex> hold(stats_lock);
    long sum = length_sum.load();
    long count = string_count.load();
    average = sum * 100 / count;
}

int main()
{
    std::thread script([] { new_string(10); });
    std::thread meter([] { report(); });
    script.join();
    meter.join();
    if (average != 1000) {
        std::fprintf(stderr, "average length is %ld/100, expected 1000/100\n", average);
        return 1;
    }
    std::puts("average length 10");
    return 0;
}
