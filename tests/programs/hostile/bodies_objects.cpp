// C++ across the two bodies of functions: inline functions and templates with static variables, virtual calls, functions of one
// name in unnamed namespaces, exceptions from one body to another, comparison of member pointers, thread-local objects.
#include "check.h"
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual long area() const = 0;
    long scaled(long by) const { return area() * by; }
};

template <int N> struct Square : Shape {
    static inline long made = 0;
    static long &count() {
        static long counted = N;
        return counted;
    }
    Square() { made++, count()++; }
    long area() const override { return N * N; }
};

namespace {
thread_local std::string name;
int initialised = [] { return 7; }();

long helper(long x) {
    if (x > 90) throw std::out_of_range("helper " + std::to_string(x));
    return x + initialised;
}
}  // namespace

inline long shared_counter() {
    static long value;
    return __atomic_add_fetch(&value, 1, __ATOMIC_RELAXED);
}

static long sum_all(const std::vector<std::unique_ptr<Shape>> &shapes, long (Shape::*by)(long) const) {
    long sum = 0;
    for (auto &shape : shapes) sum += (shape.get()->*by)(2);
    return sum;
}

static void worker(long id, long *result) {
    name = "worker " + std::to_string(id);
    std::function<long(long)> through = helper;
    long caught = 0;
    for (long i = 0; i < 200; i++) {
        try {
            *result += through(i % 100);
        } catch (const std::out_of_range &error) {
            CHECK(std::string(error.what()).rfind("helper ", 0) == 0);
            caught++;
        }
        shared_counter();
    }
    CHECK(caught == 18 && name == "worker " + std::to_string(id));
    long (*const *target)(long) = through.target<long (*)(long)>();
    CHECK(target && *target == helper);
}

int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < 10; i++) {
        if (i % 2) shapes.push_back(std::make_unique<Square<2>>());
        else shapes.push_back(std::make_unique<Square<3>>());
    }
    CHECK(Square<2>::made == 5 && Square<2>::count() == 7 && Square<3>::count() == 8);
    CHECK(sum_all(shapes, &Shape::scaled) == 2 * (5 * 4 + 5 * 9));
    const Shape &one = *shapes[0];
    CHECK(typeid(one) == typeid(Square<3>) && dynamic_cast<Square<2> *>(shapes[1].get()));
    long results[4] = {};
    std::vector<std::thread> threads;
    for (long i = 0; i < 4; i++) threads.emplace_back(worker, i, &results[i]);
    for (auto &thread : threads) thread.join();
    for (long result : results) CHECK(result == 2 * (90 * 91 / 2 + 91 * 7));
    CHECK(shared_counter() == 801 && name.empty());
    puts("EXIT-SUCCESS");
}
