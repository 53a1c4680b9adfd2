// Every kind of pthread mutex, used as intended: normal, recursive, error-checking, robust with a dead
// owner, trylock and timedlock. Nothing here is wrong; a report about it is a false alarm.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 50 };

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive, checked, robust;
static int normal_count, recursive_count, checked_count, robust_count;
static int refused, recovered, timed_out;

static void init(pthread_mutex_t *mutex, int type, int robustness)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type);
    pthread_mutexattr_setrobust(&attr, robustness);
    pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

static void nested(int depth)
{
    pthread_mutex_lock(&recursive);
    recursive_count++;
    if (depth > 1)
        nested(depth - 1);
    pthread_mutex_unlock(&recursive);
}

static void *worker(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&normal);
        normal_count++;
        pthread_mutex_unlock(&normal);
        nested(3);
        while (pthread_mutex_trylock(&checked) == EBUSY)
            sched_yield();
        checked_count++;
        if (pthread_mutex_lock(&checked) == EDEADLK && i == 0)
            refused++;
        pthread_mutex_unlock(&checked);
    }
    return NULL;
}

/* Ends with the robust mutex held: the next owner must be told. */
static void *dying_owner(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&robust);
    robust_count = 1;
    return NULL;
}

static void *impatient(void *arg)
{
    (void)arg;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += 2000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    if (pthread_mutex_timedlock(&normal, &deadline) == ETIMEDOUT)
        timed_out = 1;
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    init(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    init(&checked, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
    init(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);

    pthread_create(&a, NULL, worker, NULL);
    pthread_create(&b, NULL, worker, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);

    pthread_create(&a, NULL, dying_owner, NULL);
    pthread_join(a, NULL);
    if (pthread_mutex_lock(&robust) == EOWNERDEAD) {
        pthread_mutex_consistent(&robust);
        robust_count++;
        recovered = 1;
    }
    pthread_mutex_unlock(&robust);

    pthread_mutex_lock(&normal);
    pthread_create(&a, NULL, impatient, NULL);
    pthread_join(a, NULL);
    pthread_mutex_unlock(&normal);

    pthread_mutex_destroy(&robust);
    pthread_mutex_destroy(&checked);
    pthread_mutex_destroy(&recursive);
    int ok = normal_count == 2 * ROUNDS && recursive_count == 6 * ROUNDS && checked_count == 2 * ROUNDS &&
             robust_count == 2 && refused == 2 && recovered && timed_out;
    puts(ok ? "all mutexes keep their word" : "a mutex failed");
    return ok ? 0 : 1;
}
