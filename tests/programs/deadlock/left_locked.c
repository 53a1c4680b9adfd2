//@ deadlock: every
//@ timeout: 2
// Threads that end with locks of every kind that they never gave back, and others that want them: one after the
// other has ended, while it lives, or after a wait on a condition.
#include "../hostile/check.h"
#include <threads.h>

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, shared = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static mtx_t c11;
static int turned;

static void *leaves(void *arg) {
    pthread_mutex_lock(&plain);
    pthread_rwlock_rdlock(&rwlock);
    pthread_spin_lock(&spin);
    mtx_lock(&c11);
    pthread_mutex_lock(&shared);
    turned = 1;
    pthread_cond_broadcast(&turn);
    return arg;
}

static void *wants_plain(void *arg) { pthread_mutex_lock(&plain); return arg; }
static void *wants_rwlock(void *arg) { pthread_rwlock_wrlock(&rwlock); return arg; }
static void *wants_spin(void *arg) { pthread_spin_lock(&spin); return arg; }
static void *wants_c11(void *arg) { mtx_lock(&c11); return arg; }
static void *waits(void *arg) {
    pthread_mutex_lock(&shared);
    while (!turned) pthread_cond_wait(&turn, &shared);
    pthread_mutex_unlock(&shared);
    return arg;
}

int main(void) {
    CHECK(pthread_spin_init(&spin, 0) == 0 && mtx_init(&c11, mtx_plain) == thrd_success);
    pthread_t early = spawn(waits, NULL);
    join(spawn(leaves, NULL));
    pthread_t late[] = {spawn(wants_plain, NULL), spawn(wants_rwlock, NULL), spawn(wants_spin, NULL),
                        spawn(wants_c11, NULL), early};
    for (int i = 0; i < 5; i++) join(late[i]);
    return done();
}
