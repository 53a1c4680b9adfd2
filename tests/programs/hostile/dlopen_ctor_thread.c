//@ companion: lib_busy.c shared
//@ flags: -ldl
// A library whose constructor starts a thread and whose destructor joins it, under
// the dynamic loader's lock; opened and closed 20 times, the last left to exit().
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    churn(2, 300);
    for (int i = 0; i <= 20; i++) {
        void *lib = dlopen(argv[1], RTLD_NOW);
        CHECK(lib);
        long (*beats)(void) = (long (*)(void))dlsym(lib, "busy_beats");
        CHECK(beats);
        while (beats() < 3) usleep(50);
        if (i < 20) CHECK(dlclose(lib) == 0);
    }
    puts("21 threads from constructors");
    return done();
}
