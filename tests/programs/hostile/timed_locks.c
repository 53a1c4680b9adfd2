// Timed and try operations of mutexes, rwlocks and semaphores, with every result
// code, against a thread that holds the lock.
#include "check.h"
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static int step;

static void *holder(void *arg) {
    (void)arg;
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rw);
    STORE(step, 1);
    while (LOAD(step) != 2) usleep(50);
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_unlock(&rw);
    return NULL;
}

int main(void) {
    struct timespec bad = {0, -1}, soon;
    int value;
    CHECK(sem_init(&sem, 0, 2) == 0);
    pthread_t t = spawn(holder, NULL);
    while (LOAD(step) != 1) usleep(50);
    soon = after_ms(CLOCK_REALTIME, 5);
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
    CHECK(pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT);
    CHECK(pthread_mutex_timedlock(&mutex, &bad) == EINVAL);
    CHECK(pthread_rwlock_tryrdlock(&rw) == EBUSY && pthread_rwlock_trywrlock(&rw) == EBUSY);
    CHECK(pthread_rwlock_timedrdlock(&rw, &soon) == ETIMEDOUT);
    CHECK(pthread_rwlock_timedwrlock(&rw, &soon) == ETIMEDOUT);
    soon = after_ms(CLOCK_MONOTONIC, 5);
    CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    CHECK(pthread_rwlock_clockrdlock(&rw, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    STORE(step, 2);
    soon = after_ms(CLOCK_REALTIME, 20000);
    CHECK(pthread_mutex_timedlock(&mutex, &soon) == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_rwlock_timedwrlock(&rw, &soon) == 0);
    CHECK(pthread_rwlock_wrlock(&rw) == EDEADLK && pthread_rwlock_rdlock(&rw) == EDEADLK);
    CHECK(pthread_rwlock_unlock(&rw) == 0);
    CHECK(pthread_rwlock_rdlock(&rw) == 0 && pthread_rwlock_tryrdlock(&rw) == 0 && pthread_rwlock_trywrlock(&rw) == EBUSY);
    CHECK(pthread_rwlock_unlock(&rw) == 0 && pthread_rwlock_unlock(&rw) == 0);
    join(t);
    CHECK(sem_wait(&sem) == 0 && sem_trywait(&sem) == 0 && sem_trywait(&sem) == -1 && errno == EAGAIN);
    soon = after_ms(CLOCK_REALTIME, 5);
    CHECK(sem_timedwait(&sem, &soon) == -1 && errno == ETIMEDOUT);
    CHECK(sem_post(&sem) == 0 && sem_getvalue(&sem, &value) == 0 && value == 1);
    CHECK(sem_timedwait(&sem, &soon) == 0); // available: the time does not matter
    CHECK(sem_destroy(&sem) == 0 && pthread_rwlock_destroy(&rw) == 0 && pthread_mutex_destroy(&mutex) == 0);
    puts("timed locks");
    return done();
}
