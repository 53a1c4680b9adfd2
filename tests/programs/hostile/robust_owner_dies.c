// Robust mutexes whose owner dies: a thread, then a whole process; recovered once,
// then left unrecoverable.
#include "check.h"
#include <sys/mman.h>

static long *account;

static void *die_holding(void *lock) {
    CHECK(pthread_mutex_lock(lock) == 0);
    *account += 10;
    return NULL;
}

int main(void) {
    struct { pthread_mutex_t lock; long account; } *s =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    account = &s->account;
    pthread_mutexattr_t ma;
    CHECK(pthread_mutexattr_init(&ma) == 0);
    CHECK(pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&s->lock, &ma) == 0);

    join(spawn(die_holding, &s->lock));
    CHECK(pthread_mutex_trylock(&s->lock) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(&s->lock) == 0);
    CHECK(pthread_mutex_unlock(&s->lock) == 0);
    CHECK(pthread_mutex_lock(&s->lock) == 0 && pthread_mutex_unlock(&s->lock) == 0);
    puts("thread died, recovered");

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        die_holding(&s->lock);
        _exit(8);
    }
    expect_exit(pid, 8);
    CHECK(pthread_mutex_lock(&s->lock) == EOWNERDEAD);
    CHECK(s->account == 20);
    CHECK(pthread_mutex_unlock(&s->lock) == 0); // not made consistent
    CHECK(pthread_mutex_lock(&s->lock) == ENOTRECOVERABLE);
    puts("process died, given up");
    return done();
}
