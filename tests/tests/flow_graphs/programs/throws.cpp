// Exceptions that are caught at once, far away, in loops, thrown again, and that run destructors on their way.
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static long total;

struct Guard {
    long &value;
    explicit Guard(long &v) : value(v) {}
    ~Guard() {
        std::lock_guard<std::mutex> held(lock);
        total += value;
    }
};

struct Shape {
    virtual ~Shape() {}
    virtual long area(long x) const = 0;
};
struct Square : Shape {
    long area(long x) const override { return x * x; }
};
struct Broken : Shape {
    long area(long x) const override {
        if (x % 3 == 0) throw std::runtime_error("broken");
        return x;
    }
};

__attribute__((noinline)) static long deep(int depth, long x) {
    long mine = x;
    Guard guard(mine);
    if (depth == 0) {
        if (x & 1) throw x;
        if (x % 4 == 0) throw std::string("four");
        return x;
    }
    mine = deep(depth - 1, x + 1);
    return mine + depth;
}

__attribute__((noinline)) static long middle(int depth, long x) {
    try {
        return deep(depth, x);
    } catch (const std::string &text) {
        long size = static_cast<long>(text.size());
        if (x % 8 == 0) throw;
        return size;
    }
}

static void work(long seed) {
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.emplace_back(new Square);
    shapes.emplace_back(new Broken);
    std::map<std::string, long> seen;
    std::function<long(long)> twice = [&](long x) { return x == 5 ? throw std::out_of_range("five") : 2 * x; };
    for (long round = 0; round < 12; round++) {
        try {
            long got = middle(static_cast<int>(round % 4), seed + round);
            seen["whole"] += got;
        } catch (long number) {
            seen["number"] += number;
            continue;
        } catch (...) {
            seen["other"]++;
        }
        for (const auto &shape : shapes) {
            try {
                seen["area"] += shape->area(seed + round) + twice(round);
            } catch (const std::runtime_error &) {
                seen["broken"]++;
                break;
            } catch (const std::exception &error) {
                seen[error.what()]++;
            }
        }
    }
    std::lock_guard<std::mutex> held(lock);
    for (const auto &row : seen) total += row.second;
}

int main() {
    std::vector<std::thread> threads;
    for (long seed = 0; seed < 3; seed++) threads.emplace_back(work, seed * 5);
    for (auto &thread : threads) thread.join();
    std::printf("%s\n", total ? "done" : "nothing");
}
