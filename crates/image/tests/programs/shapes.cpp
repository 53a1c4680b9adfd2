// Names and types of C++: namespaces, classes, bases, templates, static members, atomics.
#include <atomic>
#include <mutex>
#include <cstdio>

namespace bank {
struct Base {
    int id;
};
class Account : public Base {
public:
    virtual ~Account() {}
    virtual void withdraw(int amount) { total -= amount; } //~ withdraw
    int total = 0;
    static int opened;
    std::mutex lock;
};
int Account::opened;
Account first;
std::atomic<int> hits;
int *table[4];

template <typename T> __attribute__((noinline)) void bump(T &what) {
    what += 1; //~ template
}
} // namespace bank

__attribute__((noinline)) int tick() {
    static int count;
    return ++count; //~ static
}

int main() {
    bank::first.withdraw(3);
    bank::bump(bank::Account::opened);
    bank::hits.fetch_add(1);
    std::printf("ran %d\n", tick());
    return 0;
}
