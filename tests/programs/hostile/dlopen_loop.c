//@ companion: lib_counter.c shared
//@ flags: -ldl
// dlopen and dlclose of an instrumented library 200 times: its constructor and
// destructor run each time and its data starts afresh, while a thread works.
#include "check.h"
#include <dlfcn.h>

static int stop;
static long shared, unloads;

static void *hammer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) ADD(shared, 1);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    pthread_t t = spawn(hammer, NULL);
    for (int i = 0; i < 200; i++) {
        void *lib = dlopen(argv[1], i % 2 ? RTLD_NOW : RTLD_LAZY | RTLD_GLOBAL);
        CHECK(lib);
        long (*bump)(long) = (long (*)(long))dlsym(lib, "lib_bump");
        void (*tell)(long *) = (void (*)(long *))dlsym(lib, "lib_tell_unload");
        CHECK(bump && tell && !dlsym(lib, "no_such_symbol") && dlerror());
        CHECK(bump(5) == 105 && bump(1) == 106);
        tell(&unloads);
        CHECK(dlclose(lib) == 0);
        CHECK(LOAD(unloads) == i + 1);
        CHECK(!dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD));
    }
    CHECK(!dlopen("./no-such-library.so", RTLD_NOW) && dlerror());
    STORE(stop, 1);
    join(t);
    puts("200 loads");
    return done();
}
