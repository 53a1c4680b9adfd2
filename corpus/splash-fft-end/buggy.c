// With an empty definition of the macro that waits for the workers, the main thread goes on to
// print the run time, which one of the workers stores at its end.

#include <pthread.h>
#include <stdio.h>

enum { POINTS = 8 };

static long samples[POINTS];
static long end_stamp;
static long start_stamp = 1000;

static void *transform(void *arg)
{
    (void)arg;
    for (int i = 0; i < POINTS; i++)
        samples[i] = i * i;
    end_stamp = start_stamp + POINTS; //~ guilty
    return NULL;
}

/* The main thread's own share of the matrix, much larger than the worker's. */
__attribute__((noinline)) static unsigned own_share(void)
{
    unsigned x = 1;
    for (int n = 0; n < 12000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

int main(void)
{
    pthread_t worker;
    pthread_create(&worker, NULL, transform, NULL);
    unsigned sum = own_share();
    long elapsed = end_stamp - start_stamp; //~ guilty
    pthread_join(worker, NULL);
    if (elapsed != POINTS || sum == 0) {
        fprintf(stderr, "nonsense run time %ld\n", elapsed);
        return 1;
    }
    puts("run time 8");
    return 0;
}
