// A consumer holds the registry's lock while it waits for the queue to fill. Waiting releases the
// queue's lock only; the producer needs the registry's lock to get to the queue.
// Fixed: the consumer gives the registry's lock up before it waits.

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

static std::mutex registry_lock;
static std::mutex queue_lock;
static std::condition_variable filled;
static int lookups;
static int queue_length;

// A consumer has something else to do first.
__attribute__((noinline)) static unsigned prepare()
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void consume()
{
    if (!prepare())
        return;
    std::unique_lock<std::mutex> registry(registry_lock);
    lookups++;
    registry.unlock();
    std::unique_lock<std::mutex> queue(queue_lock);
    while (queue_length == 0)
        filled.wait(queue);
    queue_length--;
}

static void produce()
{
    std::unique_lock<std::mutex> registry(registry_lock);
    lookups++;
    std::unique_lock<std::mutex> queue(queue_lock);
    queue_length++;
    filled.notify_one();
}

int main()
{
    std::thread producer(produce);
    std::thread consumer(consume);
    producer.join();
    consumer.join();
    std::printf("consumed, %d left\n", queue_length);
    return 0;
}
