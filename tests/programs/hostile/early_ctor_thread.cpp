// Threads started by constructors before main, from the earliest priority and
// from a global C++ object, that still run in main and in destructors.
#include "check.h"
#include <thread>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long shared;
static int stop;
static pthread_t early;

static void *hammer(void *) {
    while (!LOAD(stop)) {
        pthread_mutex_lock(&lock);
        shared++;
        pthread_mutex_unlock(&lock);
        usleep(20);
    }
    return NULL;
}

__attribute__((constructor(101))) static void before_everything() { early = spawn(hammer, NULL); }

struct Global {
    std::thread thread{[] { hammer(NULL); }};
    ~Global() {
        STORE(stop, 1);
        thread.join();
        join(early);
        CHECK(shared > 0);
        done();
    }
};
static Global global;

int main() {
    for (;;) {
        pthread_mutex_lock(&lock);
        long seen = shared;
        pthread_mutex_unlock(&lock);
        if (seen > 50) break;
        usleep(50);
    }
    churn(2, 300);
    puts("main saw early threads");
    return 0;
}
