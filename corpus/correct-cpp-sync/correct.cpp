// The C++ standard library's locks: mutex, recursive, timed and shared mutexes, scoped_lock over two,
// condition variables, call_once, a function-local static, futures and thread_local objects.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>

static constexpr int rounds = 40;

struct Account {
    std::mutex lock;
    int money = 1000;
};

struct Registry {
    int entries = 5;
    Registry() { built++; }
    static int built;
};
int Registry::built = 0;

// The compiler guards this initialisation: both threads may come first.
static Registry &registry()
{
    static Registry instance;
    return instance;
}

static Account left, right;
static std::recursive_mutex nested_lock;
static std::timed_mutex timed_lock;
static std::shared_mutex table_lock;
static std::condition_variable turn_changed;
static std::condition_variable_any any_changed;
static std::mutex turn_lock;
static std::once_flag once;
static int nested_count, timed_count, table, once_count, turn, destroyed;

struct Noisy {
    ~Noisy()
    {
        std::lock_guard<std::mutex> hold(turn_lock);
        destroyed++;
    }
    int used = 0;
};
static thread_local Noisy noisy;

static void transfer(Account &from, Account &to, int amount)
{
    std::scoped_lock both(from.lock, to.lock);
    from.money -= amount;
    to.money += amount;
}

static void nested(int depth)
{
    std::lock_guard<std::recursive_mutex> hold(nested_lock);
    nested_count++;
    if (depth > 1)
        nested(depth - 1);
}

static int worker(int me)
{
    int seen = 0;
    noisy.used++;
    std::call_once(once, [] { once_count++; });
    for (int i = 0; i < rounds; i++) {
        me ? transfer(left, right, 1) : transfer(right, left, 1);
        nested(2);
        {
            std::unique_lock<std::timed_mutex> hold(timed_lock, std::defer_lock);
            while (!hold.try_lock_for(std::chrono::milliseconds(50)))
                ;
            timed_count++;
        }
        if (me) {
            std::unique_lock<std::shared_mutex> hold(table_lock);
            table++;
        } else {
            std::shared_lock<std::shared_mutex> hold(table_lock);
            seen = table;
        }
        std::unique_lock<std::mutex> hold(turn_lock);
        turn_changed.wait(hold, [&] { return turn % 2 == me; });
        turn++;
        turn_changed.notify_one();
        any_changed.notify_all();
    }
    return registry().entries + (seen > rounds);
}

int main()
{
    auto answer = std::async(std::launch::async, worker, 0);
    std::promise<int> promise;
    auto promised = promise.get_future();
    std::thread other([&promise] { promise.set_value(worker(1)); });
    {
        std::unique_lock<std::mutex> hold(turn_lock);
        any_changed.wait(hold, [] { return turn >= rounds; });
    }
    int entries = answer.get() + promised.get();
    other.join();
    bool ok = entries == 10 && Registry::built == 1 && once_count == 1 && nested_count == 4 * rounds &&
              timed_count == 2 * rounds && table == rounds && turn == 2 * rounds && left.money == 1000 &&
              right.money == 1000;
    {
        std::lock_guard<std::mutex> hold(turn_lock);
        ok = ok && destroyed >= 1;
    }
    std::puts(ok ? "standard locks hold" : "a lock failed");
    return ok ? 0 : 1;
}
