// A sampler stores one value after another, a logger must read each before the next is
// stored. The logger waits for the sampler, but the sampler only hopes that computing the
// next sample takes long enough for the logger to read the last one.
// Fixed: the sampler waits until the last sample was read.

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { SAMPLES = 3 };

static int sample;
static sem_t stored;
static sem_t taken;
static int missed;

/* The measurement: pure computation, as long as the original's device was slow. */
__attribute__((noinline)) static int measure(int i)
{
    unsigned x = (unsigned)i + 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return i + (x == 0);
}

static void *logger(void *arg)
{
    (void)arg;
    for (int i = 0; i < SAMPLES; i++) {
        sem_wait(&stored);
        if (sample != i)
            missed++;
        sem_post(&taken);
    }
    return NULL;
}

int main(void)
{
    pthread_t reader;
    sem_init(&stored, 0, 0);
    sem_init(&taken, 0, 0);
    pthread_create(&reader, NULL, logger, NULL);
    for (int i = 0; i < SAMPLES; i++) {
        int value = measure(i);
        if (i > 0)
            sem_wait(&taken);
        sample = value;
        sem_post(&stored);
    }
    pthread_join(reader, NULL);
    if (missed) {
        fprintf(stderr, "%d samples were overwritten before they were read\n", missed);
        return 1;
    }
    puts("all samples read in turn");
    return 0;
}
