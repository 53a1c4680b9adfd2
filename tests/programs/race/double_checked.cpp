// Double-checked initialisation with a plain flag.
#include <cstdio>
#include <mutex>
#include <thread>

static std::mutex lock;
static bool made;
static int value;

static int get() {
    if (!made) { //~ race
        std::lock_guard<std::mutex> g(lock);
        if (!made) {
            value = 42; //~ race
            made = true; //~ race
        }
    }
    return value; //~ race
}

int main() {
    int a = 0, b = 0;
    std::thread one([&] { a = get(); }), two([&] { b = get(); });
    one.join();
    two.join();
    puts("EXIT-SUCCESS");
    return a > 42 || b > 42;
}
