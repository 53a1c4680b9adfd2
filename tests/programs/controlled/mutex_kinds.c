// Recursive, error-checking and robust mutexes under contention: counts, refusals and dead owners.
#include "../hostile/check.h"

static pthread_mutex_t recursive, checking, robust;
static long shared;

static void *nest(void *arg) {
    for (int i = 0; i < 5; i++) {
        CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
        CHECK(pthread_mutex_trylock(&recursive) == 0);
        shared++;
        for (int n = 0; n < 3; n++) CHECK(pthread_mutex_unlock(&recursive) == 0);
        CHECK(pthread_mutex_lock(&checking) == 0 && pthread_mutex_lock(&checking) == EDEADLK);
        shared += 0;
        CHECK(pthread_mutex_unlock(&checking) == 0 && pthread_mutex_unlock(&checking) == EPERM);
    }
    return arg;
}

static void *dies(void *arg) {
    CHECK(pthread_mutex_lock(&robust) == 0);
    return arg; // with the lock held
}

static void *heir(void *arg) {
    int result = pthread_mutex_lock(&robust);
    CHECK(result == 0 || result == EOWNERDEAD);
    if (result == EOWNERDEAD) CHECK(pthread_mutex_consistent(&robust) == 0);
    CHECK(pthread_mutex_unlock(&robust) == 0);
    return (void *)(long)(result == EOWNERDEAD);
    (void)arg;
}

int main(void) {
    pthread_mutexattr_t attr;
    CHECK(pthread_mutexattr_init(&attr) == 0);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_NORMAL);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attr);
    pthread_t a = spawn(nest, NULL), b = spawn(nest, NULL);
    join(a);
    join(b);
    CHECK(shared == 10);
    pthread_t d = spawn(dies, NULL), h = spawn(heir, NULL), i = spawn(heir, NULL);
    long heirs = (long)join(h) + (long)join(i);
    join(d);
    if (heirs == 0) heirs = (long)heir(NULL);
    CHECK(heirs == 1);
    return done();
}
