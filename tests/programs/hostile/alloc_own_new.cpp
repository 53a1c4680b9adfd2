// The program replaces operator new and delete, with counters and a new_handler.
#include "check.h"
#include <new>
#include <string>
#include <thread>
#include <vector>

static long news, deletes, handled;

void *operator new(size_t n) {
    ADD(news, 1);
    if (void *p = malloc(n ? n : 1)) return p;
    throw std::bad_alloc();
}
void operator delete(void *p) noexcept {
    if (p) ADD(deletes, 1);
    free(p);
}
void operator delete(void *p, size_t) noexcept { operator delete(p); }

static void worker() {
    std::vector<std::string> v;
    for (int i = 0; i < 200; i++) v.push_back(std::string(100, 'x'));
}

int main() {
    std::set_new_handler([] { ADD(handled, 1); });
    CHECK(std::get_new_handler() != nullptr);
    long n0 = LOAD(news), d0 = LOAD(deletes);
    std::thread a(worker), b(worker);
    a.join();
    b.join();
    CHECK(LOAD(news) - n0 >= 400 && LOAD(news) - n0 == LOAD(deletes) - d0);
    puts("own new and delete");
    return done();
}
