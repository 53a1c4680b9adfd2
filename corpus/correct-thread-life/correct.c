// The life of threads: return values, pthread_exit, detach, cancellation with clean-up handlers,
// thread-specific data with destructors, __thread variables, pthread_once, names.

#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t entered, detached_done;
static int inits, destroyed, cleaned;
static __thread int calls;

static void destroy(void *value)
{
    free(value);
    pthread_mutex_lock(&lock);
    destroyed++;
    pthread_mutex_unlock(&lock);
}

static void init(void)
{
    inits++;
    pthread_key_create(&key, destroy);
}

static int use_specific(void)
{
    pthread_once(&once, init);
    int *value = pthread_getspecific(key);
    if (!value) {
        value = calloc(1, sizeof *value);
        pthread_setspecific(key, value);
    }
    calls++;
    return value ? ++*value : 0;
}

static void *returns(void *arg)
{
    (void)arg;
    use_specific();
    return (void *)(intptr_t)(use_specific() + calls);
}

static void *exits(void *arg)
{
    (void)arg;
    use_specific();
    pthread_exit((void *)(intptr_t)(10 + calls));
}

static void *detached(void *arg)
{
    (void)arg;
    use_specific();
    sem_post(&detached_done);
    return NULL;
}

static void clean_up(void *arg)
{
    (*(int *)arg)++;
    pthread_mutex_unlock(&lock);
}

/* Cancelled inside the wait: the handler runs with the mutex held. */
static void *cancelled(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(clean_up, &cleaned);
    sem_post(&entered);
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    pthread_t a, b, c, d;
    void *from_a, *from_b, *from_c;
    sem_init(&entered, 0, 0);
    sem_init(&detached_done, 0, 0);
    pthread_create(&a, NULL, returns, NULL);
    pthread_setname_np(a, "returns");
    pthread_create(&b, NULL, exits, NULL);
    pthread_join(a, &from_a);
    pthread_join(b, &from_b);

    pthread_create(&d, NULL, detached, NULL);
    pthread_detach(d);
    sem_wait(&detached_done);

    pthread_create(&c, NULL, cancelled, NULL);
    sem_wait(&entered);
    pthread_cancel(c);
    pthread_join(c, &from_c);

    pthread_mutex_lock(&lock);
    int seen = destroyed;
    pthread_mutex_unlock(&lock);
    int ok = (intptr_t)from_a == 4 && (intptr_t)from_b == 11 && from_c == PTHREAD_CANCELED && inits == 1 &&
             cleaned == 1 && seen >= 2 && calls == 0;
    puts(ok ? "every thread ended as it should" : "a thread ended badly");
    return ok ? 0 : 1;
}
