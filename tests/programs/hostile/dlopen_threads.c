//@ companion: lib_counter.c shared
//@ flags: -ldl
//@ hidden
// Four threads open the same instrumented library, call into it (its lock, its
// thread-local storage, its mallocs) and close it, without any order among them.
#include "check.h"
#include <dlfcn.h>

static const char *path;
static long opened;

static void *user(void *arg) {
    long by = (long)arg, sum = 0;
    for (int i = 0; i < 30; i++) {
        void *lib = dlopen(path, RTLD_NOW);
        CHECK(lib);
        ADD(opened, 1);
        long (*bump)(long) = (long (*)(long))dlsym(lib, "lib_bump");
        long (*mine)(void) = (long (*)(void))dlsym(lib, "lib_mine");
        char *(*text)(int) = (char *(*)(int))dlsym(lib, "lib_text");
        long before = mine();
        for (int k = 0; k < 20; k++) CHECK(bump(by) >= 100);
        CHECK(mine() == before + 20 * by);
        char *s = text(i);
        CHECK(s && strlen(s) == (size_t)i);
        free(s);
        sum++;
        CHECK(dlclose(lib) == 0);
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    path = argv[1];
    pthread_t t[4];
    for (long i = 0; i < 4; i++) t[i] = spawn(user, (void *)(i + 1));
    for (int i = 0; i < 4; i++) CHECK(join(t[i]) == (void *)30);
    CHECK(opened == 120);
    churn(2, 300);
    puts("120 opens");
    return done();
}
