// A transfer tests that the endpoint is valid and then writes to its buffer. Closing clears
// both, and can do so entirely between the test and the write.
// Fixed: test and use are under the lock that closing takes.

#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

struct Endpoint {
    std::atomic<bool> valid{true};
    std::atomic<char *> buffer{nullptr};
    std::mutex lock;
};

static Endpoint endpoint;
static char storage[16];
static std::atomic<int> transfers{0};

__attribute__((noinline)) static void transfer(char byte)
{
    std::lock_guard<std::mutex> hold(endpoint.lock);
    if (!endpoint.valid.load())
        return;
    transfers.fetch_add(1);
    endpoint.buffer.load()[0] = byte;
}

__attribute__((noinline)) static void close_endpoint()
{
    std::lock_guard<std::mutex> hold(endpoint.lock);
    endpoint.valid.store(false);
    endpoint.buffer.store(nullptr);
}

int main()
{
    endpoint.buffer.store(storage);
    std::thread sender([] { transfer('x'); });
    std::thread closer([] { close_endpoint(); });
    sender.join();
    closer.join();
    std::printf("closed after %d transfers\n", transfers.load());
    return 0;
}
