//@ flags: -ldl
//@ hidden
// The program wraps pthread_mutex_lock and unlock by weak definitions of its own that
// find the real ones with dlsym(RTLD_NEXT): each call passes through its wrapper.
#include "check.h"
#include <dlfcn.h>

static long locks, unlocks;

__attribute__((weak)) int pthread_mutex_lock(pthread_mutex_t *m) {
    static int (*real)(pthread_mutex_t *);
    if (!LOAD(real)) STORE(real, (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    ADD(locks, 1);
    return real(m);
}

__attribute__((weak)) int pthread_mutex_unlock(pthread_mutex_t *m) {
    static int (*real)(pthread_mutex_t *);
    if (!LOAD(real)) STORE(real, (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
    ADD(unlocks, 1);
    return real(m);
}

int main(void) {
    churn(4, 500);
    CHECK(locks >= 2000 && unlocks >= 2000);
    puts("wrapped locks");
    return done();
}
