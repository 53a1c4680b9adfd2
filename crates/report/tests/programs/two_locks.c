// Two threads take two locks in opposite orders.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t journal = PTHREAD_MUTEX_INITIALIZER;
static long balance, entries;

static __attribute__((noinline)) void take(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
}

static void *deposit(void *unused)
{
    pthread_mutex_lock(&accounts);
    balance += 10;
    take(&journal);
    entries++;
    pthread_mutex_unlock(&journal);
    pthread_mutex_unlock(&accounts);
    return unused;
}

static void *audit(void *unused)
{
    pthread_mutex_lock(&journal);
    entries++;
    pthread_mutex_lock(&accounts);
    long seen = balance;
    pthread_mutex_unlock(&accounts);
    pthread_mutex_unlock(&journal);
    return seen < 0 ? &balance : unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, deposit, NULL);
    pthread_create(&threads[1], NULL, audit, NULL);
    pthread_setname_np(threads[0], "teller");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%ld %ld\n", balance, entries);
    return 0;
}
