// The waiter tests the flag without the lock and then waits without testing again. If the flag is
// set and signalled between the test and the wait, nobody ever signals again.
// Fixed: the flag is tested under the lock, in a loop.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static atomic_int ready;
static int woken;

static void *waiter(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!atomic_load(&ready))
        pthread_cond_wait(&wake, &lock);
    pthread_mutex_unlock(&lock);
    woken = 1;
    return NULL;
}

static void *notifier(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    atomic_store(&ready, 1);
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, waiter, NULL);
    pthread_create(&b, NULL, notifier, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts(woken ? "woken" : "asleep");
    return 0;
}
