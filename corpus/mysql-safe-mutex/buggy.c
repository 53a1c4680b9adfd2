// A debugging mutex keeps its lock count and its owner. Locking stores first one, then the
// other; the check that the caller is not the owner reads both without any lock. It can see
// the count of the new lock together with the owner of the last one, which is itself.

#include <assert.h>
#include <pthread.h>
#include <stdio.h>

struct safe_mutex {
    pthread_mutex_t mutex;
    pthread_mutex_t global;
    int count;
    long owner;
};

static struct safe_mutex mutex = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, 0, 0};

__attribute__((noinline)) static void safe_lock(long self)
{
    pthread_mutex_lock(&mutex.mutex);
    pthread_mutex_lock(&mutex.global);
    __atomic_store_n(&mutex.count, mutex.count + 1, __ATOMIC_RELAXED); //~ guilty
    __atomic_store_n(&mutex.owner, self, __ATOMIC_RELAXED); //~ guilty
    pthread_mutex_unlock(&mutex.global);
}

__attribute__((noinline)) static void safe_unlock(void)
{
    pthread_mutex_lock(&mutex.global);
    __atomic_store_n(&mutex.count, mutex.count - 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&mutex.global);
    pthread_mutex_unlock(&mutex.mutex);
}

__attribute__((noinline)) static void assert_not_owner(long self)
{
    int count = __atomic_load_n(&mutex.count, __ATOMIC_RELAXED); //~ guilty
    long owner = __atomic_load_n(&mutex.owner, __ATOMIC_RELAXED); //~ guilty
    assert(count == 0 || owner != self);
}

static void *session(void *arg)
{
    long self = (long)arg;
    safe_lock(self);
    safe_unlock();
    assert_not_owner(self);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, session, (void *)1L);
    pthread_create(&b, NULL, session, (void *)2L);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("mutex state is consistent");
    return 0;
}
