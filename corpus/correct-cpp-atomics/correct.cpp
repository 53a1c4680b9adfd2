// C++ atomics: a lock-free stack, release and acquire hand-over, fences, shared_ptr reference counts and
// double-checked creation with the right order.

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

static constexpr int rounds = 40;

struct Node {
    int value;
    Node *next;
};

static std::atomic<Node *> top{nullptr};
static Node nodes[2 * rounds];

static void push(Node *node)
{
    node->next = top.load(std::memory_order_relaxed);
    while (!top.compare_exchange_weak(node->next, node, std::memory_order_release, std::memory_order_relaxed))
        ;
}

struct Settings {
    int port;
};

static std::atomic<Settings *> instance{nullptr};
static std::mutex create_lock;
static Settings storage;
static int created;

static Settings *settings()
{
    Settings *seen = instance.load(std::memory_order_acquire);
    if (!seen) {
        std::lock_guard<std::mutex> hold(create_lock);
        seen = instance.load(std::memory_order_relaxed);
        if (!seen) {
            storage.port = 8080;
            created++;
            seen = &storage;
            instance.store(seen, std::memory_order_release);
        }
    }
    return seen;
}

static int message;
static std::atomic<bool> sent{false};
static std::atomic<long> total{0};

static void worker(int me, std::shared_ptr<int> shared)
{
    for (int i = 0; i < rounds; i++) {
        Node *node = &nodes[me * rounds + i];
        node->value = 1;
        push(node);
        total.fetch_add(settings()->port == 8080 ? *shared : 0, std::memory_order_relaxed);
    }
    if (me == 0) {
        message = 42;
        std::atomic_thread_fence(std::memory_order_release);
        sent.store(true, std::memory_order_relaxed);
    } else {
        while (!sent.load(std::memory_order_relaxed))
            std::this_thread::yield();
        std::atomic_thread_fence(std::memory_order_acquire);
        total.fetch_add(message, std::memory_order_relaxed);
    }
}

int main()
{
    auto shared = std::make_shared<int>(1);
    std::weak_ptr<int> watch = shared;
    std::thread a(worker, 0, shared);
    std::thread b(worker, 1, std::move(shared));
    a.join();
    b.join();
    int count = 0;
    for (Node *node = top.load(std::memory_order_acquire); node; node = node->next)
        count += node->value;
    bool ok = count == 2 * rounds && created == 1 && total.load() == 2 * rounds + 42 && watch.expired();
    std::puts(ok ? "atomics in order" : "atomics out of order");
    return ok ? 0 : 1;
}
