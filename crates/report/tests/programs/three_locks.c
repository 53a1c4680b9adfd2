// Three philosophers; the forks are members of objects on the heap.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct fork_ {
    long uses;
    pthread_mutex_t lock;
};

static struct fork_ *forks;

static void *dine(void *number)
{
    long left = (long)number, right = (left + 1) % 3;
    pthread_mutex_lock(&forks[left].lock);
    forks[left].uses++;
    pthread_mutex_lock(&forks[right].lock);
    forks[right].uses++;
    pthread_mutex_unlock(&forks[right].lock);
    pthread_mutex_unlock(&forks[left].lock);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    forks = malloc(3 * sizeof *forks);
    for (int i = 0; i < 3; i++) {
        forks[i].uses = 0;
        pthread_mutex_init(&forks[i].lock, NULL);
    }
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, dine, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", forks[0].uses + forks[1].uses + forks[2].uses);
    free(forks);
    return 0;
}
