// Mutex kinds and their errors, barriers with exactly one serial thread, spin locks,
// a rwlock with many readers, pthread_once from many threads.
#include "check.h"

static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long serial, spun, written, inits;

static void init(void) { inits++; }

static void *worker(void *arg) {
    (void)arg;
    for (int i = 0; i < 200; i++) {
        int r = pthread_barrier_wait(&barrier);
        CHECK(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
        if (r) ADD(serial, 1);
        CHECK(pthread_once(&once, init) == 0 && inits == 1);
        CHECK(pthread_spin_lock(&spin) == 0);
        spun++;
        CHECK(pthread_spin_unlock(&spin) == 0);
        CHECK(pthread_rwlock_wrlock(&rw) == 0);
        written++;
        CHECK(pthread_rwlock_unlock(&rw) == 0 && pthread_rwlock_rdlock(&rw) == 0);
        CHECK(written > 0 && pthread_rwlock_unlock(&rw) == 0);
    }
    return NULL;
}

static void *foreign_unlock(void *m) { return (void *)(long)pthread_mutex_unlock(m); }

int main(void) {
    pthread_t t[4];
    CHECK(pthread_barrier_init(&barrier, NULL, 4) == 0 && pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    CHECK(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    for (int i = 0; i < 4; i++) t[i] = spawn(worker, NULL);
    for (int i = 0; i < 4; i++) join(t[i]);
    CHECK(serial == 200 && spun == 800 && written == 800);
    CHECK(pthread_spin_trylock(&spin) == 0 && pthread_spin_trylock(&spin) == EBUSY && pthread_spin_unlock(&spin) == 0);
    pthread_mutex_t check = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, rec = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    CHECK(pthread_mutex_unlock(&check) == EPERM && pthread_mutex_lock(&check) == 0);
    CHECK(pthread_mutex_lock(&check) == EDEADLK && join(spawn(foreign_unlock, &check)) == (void *)EPERM);
    CHECK(pthread_mutex_destroy(&check) == EBUSY && pthread_mutex_unlock(&check) == 0);
    for (int i = 0; i < 1000; i++) CHECK((i % 2 ? pthread_mutex_trylock : pthread_mutex_lock)(&rec) == 0);
    for (int i = 0; i < 1000; i++) CHECK(pthread_mutex_unlock(&rec) == 0);
    CHECK(pthread_mutex_unlock(&rec) == EPERM && pthread_mutex_destroy(&rec) == 0);
    pthread_mutexattr_t inherit;
    pthread_mutex_t pi;
    CHECK(pthread_mutexattr_init(&inherit) == 0 && pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutex_init(&pi, &inherit) == 0 && pthread_mutex_lock(&pi) == 0 && pthread_mutex_unlock(&pi) == 0);
    puts("lock kinds");
    return done();
}
