// Companion library: constructor and destructor, a guarded counter, malloc inside,
// thread-local storage, and a symbol that the main program defines as well.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long count;
static __thread long mine;
static long *on_unload;

const char *who(void) { return "library"; }
const char *lib_who(void) { return who(); }

__attribute__((constructor)) static void loaded(void) { count = 100; }
__attribute__((destructor)) static void unloaded(void) {
    if (on_unload) __atomic_add_fetch(on_unload, 1, __ATOMIC_ACQ_REL);
}

void lib_tell_unload(long *where) { on_unload = where; }

long lib_bump(long by) {
    pthread_mutex_lock(&lock);
    count += by;
    long now = count;
    pthread_mutex_unlock(&lock);
    mine += by;
    return now;
}

long lib_mine(void) { return mine; }

char *lib_text(int n) {
    char *text = malloc((size_t)n + 1);
    if (text) {
        memset(text, 'a' + n % 26, (size_t)n);
        text[n] = '\0';
    }
    return text;
}
