// Once-routines and static initialisers that fail the first time, with several threads at each.
#include "../hostile/check.h"
#include <mutex>
#include <thread>
#include <vector>

static std::once_flag flag;
static int tries, static_tries, failures;

struct Late {
    int value = 7;
    Late() {
        if (ADD(static_tries, 1) == 1) throw 1;
    }
};

static int late() {
    static Late l;
    return l.value;
}

static void work() {
    for (;;) {
        try {
            std::call_once(flag, [] {
                if (ADD(tries, 1) == 1) throw 1;
            });
            break;
        } catch (int) {
            ADD(failures, 1);
        }
    }
    for (;;) {
        try {
            CHECK(late() == 7);
            break;
        } catch (int) {
            ADD(failures, 1);
        }
    }
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back(work);
    for (auto &t : threads) t.join();
    CHECK(tries == 2 && static_tries == 2 && failures == 2);
    return done();
}
