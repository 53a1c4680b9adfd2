//@ companion: lib_counter.c shared
//@ flags: -ldl -rdynamic
// RTLD_DEEPBIND: the library prefers its own `who`; without it the program's wins.
// Memory that the library allocates is freed by the program either way.
#include "check.h"
#include <dlfcn.h>

const char *who(void) { return "program"; }

static void use(void *lib) {
    CHECK(lib);
    const char *(*lib_who)(void) = (const char *(*)(void))dlsym(lib, "lib_who");
    char *(*text)(int) = (char *(*)(int))dlsym(lib, "lib_text");
    long (*bump)(long) = (long (*)(long))dlsym(lib, "lib_bump");
    CHECK(lib_who && text && bump && bump(1) == 101);
    char *s = text(1000);
    s = realloc(s, 5000);
    CHECK(s && strlen(s) == 1000);
    free(s);
    printf("who: %s\n", lib_who());
    CHECK(dlclose(lib) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    churn(2, 300);
    use(dlopen(argv[1], RTLD_NOW));
    use(dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND));
    churn(2, 300);
    return done();
}
