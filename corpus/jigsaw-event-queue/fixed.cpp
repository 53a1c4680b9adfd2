// The event manager waits until the queue has an event, gets the first one and removes it. All
// three calls are synchronised, the sequence is not; the second thread gets an element that is
// gone.
// Fixed: the sequence holds the queue's lock.

#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

struct EventQueue {
    std::deque<int> events{41};
    std::recursive_mutex lock;

    __attribute__((noinline)) bool empty()
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        return events.empty();
    }
    __attribute__((noinline)) int first()
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        return events.at(0);
    }
    __attribute__((noinline)) void remove_first()
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        if (!events.empty())
            events.pop_front();
    }
};

static EventQueue queue;
static int handled[2];

static void next_event(int who)
{
    std::lock_guard<std::recursive_mutex> hold(queue.lock);
    if (queue.empty())
        return;
    handled[who] = queue.first();
    queue.remove_first();
}

int main()
{
    std::thread a([] { next_event(0); });
    std::thread b([] { next_event(1); });
    a.join();
    b.join();
    std::printf("event %d handled\n", handled[0] ? handled[0] : handled[1]);
    return 0;
}
