// A worker pool with futures, a shared_mutex cache and static initialisation.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

class Pool {
    std::mutex lock;
    std::condition_variable filled;
    std::deque<std::function<void()>> tasks;
    bool closed = false;
    std::vector<std::thread> workers;

    void work() {
        for (;;) {
            std::unique_lock<std::mutex> g(lock);
            filled.wait(g, [this] { return closed || !tasks.empty(); });
            if (tasks.empty()) return;
            auto task = std::move(tasks.front());
            tasks.pop_front();
            g.unlock();
            task();
        }
    }

  public:
    Pool() { for (int i = 0; i < 3; i++) workers.emplace_back([this] { work(); }); }
    void submit(std::function<void()> task) {
        std::lock_guard<std::mutex> g(lock);
        tasks.push_back(std::move(task));
        filled.notify_one();
    }
    ~Pool() {
        { std::lock_guard<std::mutex> g(lock); closed = true; }
        filled.notify_all();
        for (auto &w : workers) w.join();
    }
};

static long square(long n) {
    static std::shared_mutex lock;
    static std::map<long, long> cache;
    {
        std::shared_lock<std::shared_mutex> g(lock);
        auto hit = cache.find(n);
        if (hit != cache.end()) return hit->second;
    }
    std::unique_lock<std::shared_mutex> g(lock);
    return cache[n] = n * n;
}

int main() {
    std::vector<std::future<long>> results;
    long total = 0;
    {
        Pool pool;
        for (long i = 0; i < 200; i++) {
            auto promise = std::make_shared<std::promise<long>>();
            results.push_back(promise->get_future());
            pool.submit([promise, i] { promise->set_value(square(i % 20)); });
        }
        for (auto &r : results) total += r.get();
    }
    printf("total %ld\n", total);
    puts("EXIT-SUCCESS");
    return total == 24700 ? 0 : 1;
}
