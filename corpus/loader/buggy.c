// Two loaders fill one half of an array each and announce it. The main thread must wait for
// both announcements and waits for one.

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { HALF = 4 };

static int values[2 * HALF];
static sem_t loaded;

static void *load(void *arg)
{
    int *half = arg;
    for (int i = 0; i < HALF; i++)
        half[i] = 1; //~ guilty
    sem_post(&loaded);
    return NULL;
}

/* Prints a header before the result is computed. */
__attribute__((noinline)) static unsigned header(void)
{
    unsigned x = 1;
    for (int n = 0; n < 12000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

int main(void)
{
    pthread_t a, b;
    int sum = 0;
    sem_init(&loaded, 0, 0);
    pthread_create(&a, NULL, load, values);
    pthread_create(&b, NULL, load, values + HALF);
    sem_wait(&loaded);
    if (header())
        for (int i = 0; i < 2 * HALF; i++)
            sum += values[i]; //~ guilty
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (sum != 2 * HALF) {
        fprintf(stderr, "summed %d of %d values\n", sum, 2 * HALF);
        return 1;
    }
    puts("8 values loaded");
    return 0;
}
