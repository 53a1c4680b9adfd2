// One post for two waiters, and a barrier that one thread never reaches.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static sem_t permits;
static pthread_barrier_t gate;
static int done;

static void *use(void *unused)
{
    sem_wait(&permits);
    pthread_barrier_wait(&gate);
    __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
    return unused;
}

int main(int argc, char **argv)
{
    (void)argv;
    pthread_t threads[2];
    sem_init(&permits, 0, 0);
    pthread_barrier_init(&gate, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, use, NULL);
    sem_post(&permits);
    if (argc > 1)
        sem_post(&permits);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", done);
    return 0;
}
