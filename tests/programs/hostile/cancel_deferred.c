//@ hidden
// Deferred cancellation at cond_wait, sem_wait, read, join, nanosleep and a bare
// testcancel: cleanup handlers run in order and the cond_wait mutex is held again.
#include "check.h"
#include <semaphore.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static int fds[2], waiting;
static long cleaned;

static void unlock(void *arg) {
    CHECK(pthread_mutex_trylock(arg) == EBUSY); // held by us
    ADD(cleaned, 1);
    CHECK(pthread_mutex_unlock(arg) == 0);
}
static void count(void *arg) { ADD(cleaned, (long)arg); }
static void *forever(void *arg) { for (;;) pause(); return arg; }
static void stop(void *thread) {
    CHECK(pthread_cancel(*(pthread_t *)thread) == 0 && join(*(pthread_t *)thread) == PTHREAD_CANCELED);
}

static void *victim(void *arg) {
    char c;
    pthread_t other;
    pthread_cleanup_push(count, (void *)10);
    switch ((long)arg) {
    case 0:
        pthread_mutex_lock(&lock);
        pthread_cleanup_push(unlock, &lock);
        STORE(waiting, 1);
        for (;;) pthread_cond_wait(&never, &lock);
        pthread_cleanup_pop(0);
        break;
    case 1: STORE(waiting, 1); sem_wait(&empty); break;
    case 2: STORE(waiting, 1); CHECK(read(fds[0], &c, 1) == 1); break;
    case 3:
        other = spawn(forever, NULL);
        pthread_cleanup_push(stop, &other);
        STORE(waiting, 1);
        pthread_join(other, NULL);
        pthread_cleanup_pop(0);
        break;
    case 4: STORE(waiting, 1); sleep(100); break;
    case 5: STORE(waiting, 1); for (;;) pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    CHECK(sem_init(&empty, 0, 0) == 0 && pipe(fds) == 0);
    for (int round = 0; round < 5; round++)
        for (long kind = 0; kind < 6; kind++) {
            STORE(waiting, 0);
            pthread_t t = spawn(victim, (void *)kind);
            while (!LOAD(waiting)) usleep(20);
            if (round % 2) usleep(500);
            CHECK(pthread_cancel(t) == 0 && join(t) == PTHREAD_CANCELED);
            CHECK(pthread_mutex_trylock(&lock) == 0 && pthread_mutex_unlock(&lock) == 0);
        }
    CHECK(cleaned == 5 * (6 * 10 + 1));
    churn(2, 300);
    puts("30 cancelled");
    return done();
}
