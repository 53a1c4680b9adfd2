// Main waits for a thread while it holds the lock that the thread wants.
#include <pthread.h>
#include <stdio.h>

static struct {
    int jobs;
    pthread_mutex_t lock;
} pool = {0, PTHREAD_MUTEX_INITIALIZER};

static void *work(void *unused)
{
    pthread_mutex_lock(&pool.lock);
    pool.jobs++;
    pthread_mutex_unlock(&pool.lock);
    return unused;
}

static void shut_down(pthread_t worker)
{
    pthread_mutex_lock(&pool.lock);
    pool.jobs--;
    pthread_join(worker, NULL);
    pthread_mutex_unlock(&pool.lock);
}

int main(int argc, char **argv)
{
    (void)argv;
    pthread_t worker;
    pthread_create(&worker, NULL, work, NULL);
    if (argc > 1)
        pthread_join(worker, NULL);
    else
        shut_down(worker);
    printf("%d\n", pool.jobs);
    return 0;
}
