// pthread_cancel and pthread_exit unwind C++ frames: destructors run, locks are
// released, and catch (...) must rethrow.
#include "check.h"
#include <mutex>

static std::mutex lock;
static int destroyed, entered, caught;

struct Guarded {
    ~Guarded() { ADD(destroyed, 1); }
};

static void *blocked(void *) {
    Guarded g;
    std::lock_guard<std::mutex> held(lock);
    STORE(entered, 1);
    try {
        for (;;) pause();
    } catch (...) {
        ADD(caught, 1);
        throw;
    }
}

__attribute__((noinline)) static void leave(int depth) {
    Guarded g;
    if (depth == 0) pthread_exit((void *)77);
    leave(depth - 1);
    ADD(entered, 1);
}

static void *leaver(void *) {
    leave(5);
    return NULL;
}

int main() {
    for (int i = 0; i < 20; i++) {
        STORE(entered, 0);
        pthread_t t = spawn(blocked, NULL);
        while (!LOAD(entered)) usleep(50);
        CHECK(pthread_cancel(t) == 0);
        CHECK(join(t) == PTHREAD_CANCELED);
        CHECK(lock.try_lock());
        lock.unlock();
        CHECK(join(spawn(leaver, NULL)) == (void *)77);
    }
    CHECK(destroyed == 20 + 20 * 6 && caught == 20);
    churn(2, 300);
    puts("unwound by cancel and exit");
    return done();
}
