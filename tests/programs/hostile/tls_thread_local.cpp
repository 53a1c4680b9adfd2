// thread_local objects whose destructors lock and touch shared data, in order,
// also for detached threads and for a thread that is cancelled.
#include "check.h"
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static std::vector<std::string> log_lines;
static long destroyed;

struct Member {
    std::string name;
    explicit Member(const char *n) : name(n) {}
    ~Member() {
        std::lock_guard<std::mutex> g(lock);
        log_lines.push_back("~" + name);
        ADD(destroyed, 1);
    }
};

static thread_local Member outer("outer");
static thread_local std::vector<int> numbers(100, 3);

static void touch() {
    static thread_local Member inner("inner");
    CHECK(outer.name == "outer" && inner.name == "inner" && numbers[99] == 3);
    numbers[99] = 4;
}

static void *sleeper(void *started) {
    touch();
    STORE(*(int *)started, 1);
    for (;;) pause();
}

int main() {
    std::thread(touch).join();
    for (auto &line : log_lines) puts(line.c_str());
    for (int i = 0; i < 20; i++) std::thread(touch).join();
    for (int i = 0; i < 5; i++) std::thread(touch).detach();
    while (LOAD(destroyed) < 2 * 26) usleep(100);
    int started = 0;
    pthread_t t = spawn(sleeper, &started);
    while (!LOAD(started)) usleep(50);
    CHECK(pthread_cancel(t) == 0 && join(t) == PTHREAD_CANCELED);
    CHECK(destroyed == 2 * 27);
    puts("54 destroyed");
    return done();
}
