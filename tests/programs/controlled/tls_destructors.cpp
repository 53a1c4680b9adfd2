// Destructors of thread-local objects and keys use locks and shared data when their thread is nearly gone.
#include "../hostile/check.h"
#include <mutex>
#include <thread>

static std::mutex lock;
static long shared, keys;
static pthread_key_t key;

struct Last {
    ~Last() {
        std::lock_guard<std::mutex> hold(lock);
        shared++;
    }
    long used = 0;
};
static thread_local Last last;

static void on_key(void *value) {
    std::lock_guard<std::mutex> hold(lock);
    keys++;
    // Once more, in the next round of destructors.
    if (value == (void *)1) pthread_setspecific(key, (void *)2);
}

int main() {
    CHECK(pthread_key_create(&key, on_key) == 0);
    for (int round = 0; round < 3; round++) {
        std::thread a([] { last.used++; pthread_setspecific(key, (void *)1); });
        std::thread b([] { last.used++; pthread_setspecific(key, (void *)1); });
        a.join();
        b.join();
    }
    CHECK(shared == 6 && keys == 12);
    return done();
}
