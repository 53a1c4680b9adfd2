//@ flags: -ldl
// Before every constructor, the loader is asked for names that nobody has: at the next question it gives back the words of its error,
// through a `free` that nobody has looked up yet. (So does the start-up of UndefinedBehaviorSanitizer.)
#include "check.h"
#include <dlfcn.h>

static int missing;

static void ask(void) {
    for (int i = 0; i < 3; i++) missing += dlsym(RTLD_DEFAULT, "no_library_has_this_name") == NULL;
}

__attribute__((section(".preinit_array"), used)) static void (*first_of_all)(void) = ask;

int main(void) {
    CHECK(missing == 3);
    free(malloc(100));
    CHECK(dlsym(RTLD_DEFAULT, "no_library_has_this_name") == NULL && dlerror() != NULL);
    churn(2, 1000);
    puts("EXIT-SUCCESS");
    return 0;
}
