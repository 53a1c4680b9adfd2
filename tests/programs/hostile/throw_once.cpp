// Exceptions out of once-routines (pthread_once, std::call_once) and out of a
// static initialiser: each is retried and then done exactly once.
#include "check.h"
#include <mutex>
#include <thread>

static int pthread_tries, call_tries, static_tries;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static std::once_flag flag;

static void pthread_init() {
    if (++pthread_tries < 3) throw 1;
}
static void call_init() {
    if (++call_tries < 3) throw 2;
}
struct Late {
    int value = 7;
    Late() {
        if (++static_tries < 3) throw 3;
    }
};
static int late() {
    static Late l;
    return l.value;
}

static int failures;

template <typename F> static void try_it(F f) {
    try {
        f();
    } catch (int) {
        ADD(failures, 1);
    }
}

int main() {
    for (int i = 0; i < 2; i++) try_it([] { pthread_once(&once, pthread_init); });
    for (int i = 0; i < 2; i++) try_it([] { std::call_once(flag, call_init); });
    for (int i = 0; i < 2; i++) try_it(late);
    CHECK(failures == 6);
    std::thread threads[4];
    for (auto &t : threads)
        t = std::thread([] {
            pthread_once(&once, pthread_init);
            std::call_once(flag, call_init);
            CHECK(late() == 7);
        });
    for (auto &t : threads) t.join();
    CHECK(pthread_tries == 3 && call_tries == 3 && static_tries == 3);
    churn(2, 300);
    puts("third time each");
    return done();
}
