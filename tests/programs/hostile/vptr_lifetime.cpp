// Virtual calls while the vptr changes under construction and destruction, through
// multiple and virtual bases, in objects that threads hand to each other.
#include "check.h"
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

static std::string trail;
static std::mutex lock;
static long destroyed;

struct Base {
    Base() { note(); }
    virtual ~Base() { note(); ADD(destroyed, 1); }
    virtual const char *name() const { return "B"; }
    void note() const {
        std::lock_guard<std::mutex> g(lock);
        if (trail.size() < 8) trail += name();
    }
};
struct Left : virtual Base {
    Left() { note(); }
    ~Left() override { note(); }
    const char *name() const override { return "L"; }
};
struct Right : virtual Base {
    Right() { note(); }
    ~Right() override { note(); }
    const char *name() const override { return "R"; }
};
struct Both final : Left, Right {
    Both() { note(); }
    ~Both() override { note(); }
    const char *name() const override { return "X"; }
};

int main() {
    { Both one; }
    CHECK(trail == "BLRXXRLB");
    puts(trail.c_str());
    std::deque<std::unique_ptr<Base>> queue;
    std::condition_variable filled;
    std::thread maker([&] {
        for (int i = 0; i < 500; i++) {
            std::unique_ptr<Base> made;
            if (i % 2) made = std::make_unique<Both>();
            else made = std::make_unique<Left>();
            std::lock_guard<std::mutex> g(lock);
            queue.push_back(std::move(made));
            filled.notify_one();
        }
    });
    for (int i = 0; i < 500; i++) {
        std::unique_lock<std::mutex> g(lock);
        filled.wait(g, [&] { return !queue.empty(); });
        auto got = std::move(queue.front());
        queue.pop_front();
        g.unlock();
        CHECK(*got->name() == (i % 2 ? 'X' : 'L'));
        CHECK((dynamic_cast<Right *>(got.get()) != nullptr) == (i % 2 == 1));
    }
    maker.join();
    CHECK(destroyed == 501);
    return done();
}
