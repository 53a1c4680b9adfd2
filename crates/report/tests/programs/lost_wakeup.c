// The flag is looked at outside of the lock: the signal may come between the look and the wait.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t full = PTHREAD_COND_INITIALIZER;
static int ready, got;

static void *consume(void *unused)
{
    if (!ready) {
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&full, &lock);
        pthread_mutex_unlock(&lock);
    }
    got = ready;
    return unused;
}

static void *produce(void *unused)
{
    ready = 1;
    pthread_cond_signal(&full);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, consume, NULL);
    pthread_create(&threads[1], NULL, produce, NULL);
    pthread_setname_np(threads[0], "consumer");
    pthread_setname_np(threads[1], "producer");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%d\n", got);
    return 0;
}
