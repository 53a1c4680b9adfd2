// The malloc family and every form of operator new, with the results the
// standards promise, and blocks handed from one thread to be freed by another.
#include "check.h"
#include <malloc.h>
#include <new>
#include <thread>
#include <vector>

struct alignas(128) Wide { char bytes[128]; };
static volatile size_t huge = SIZE_MAX / 2;

static void exercise() {
    for (size_t n : {0, 1, 15, 16, 4096, 200000}) {
        char *p = (char *)calloc(n + 1, 3);
        for (size_t i = 0; i < 3 * (n + 1); i++) CHECK(p[i] == 0);
        memset(p, 7, n + 1);
        p = (char *)realloc(p, 2 * n + 10);
        for (size_t i = 0; i < n + 1; i++) CHECK(p[i] == 7);
        CHECK(malloc_usable_size(p) >= 2 * n + 10);
        free(p);
    }
    void *p = nullptr;
    CHECK(posix_memalign(&p, 4096, 100) == 0 && (uintptr_t)p % 4096 == 0);
    free(p);
    CHECK(posix_memalign(&p, 3, 100) == EINVAL);
    free(aligned_alloc(64, 640));
    free(memalign(32, 10));
    free(valloc(10));
    free(nullptr);
    CHECK(reallocarray(nullptr, huge, 4) == nullptr && errno == ENOMEM);
    errno = 0;
    CHECK(malloc(huge) == nullptr && errno == ENOMEM);
    CHECK(::operator new(huge, std::nothrow) == nullptr);
    try {
        (void)::operator new(huge);
        CHECK(!"threw");
    } catch (const std::bad_alloc &) {
    }
    delete new int(3);
    delete[] new long[100];
    Wide *wide = new Wide, *wides = new Wide[3];
    CHECK((uintptr_t)wide % 128 == 0 && (uintptr_t)wides % 128 == 0);
    delete wide;
    delete[] wides;
    ::operator delete(::operator new(24), (size_t)24);
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back(exercise);
    for (auto &t : threads) t.join();
    std::vector<char *> blocks;
    std::thread([&] { for (int i = 0; i < 500; i++) blocks.push_back(new char[i + 1]); }).join();
    std::thread([&] { for (char *b : blocks) delete[] b; }).join();
    puts("allocator family");
    return done();
}
