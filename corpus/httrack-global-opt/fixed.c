// The engine thread publishes its options through a global pointer. The interface looks at
// them as soon as the engine says that it is running, which it says too early.
// Fixed: the engine publishes the pointer before it says that it runs.

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

struct options {
    int depth;
    int running;
};

static struct options engine_options;
static struct options *global_opt;
static sem_t running;

/* The interface builds its window before it shows the options. */
__attribute__((noinline)) static unsigned build_window(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *engine(void *arg)
{
    struct options *opt = arg;
    opt->depth = 5;
    global_opt = opt;
    sem_post(&running);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int depth = 0;
    sem_init(&running, 0, 0);
    pthread_create(&thread, NULL, engine, &engine_options);
    sem_wait(&running);
    if (build_window())
        depth = global_opt->depth;
    pthread_join(thread, NULL);
    printf("mirroring to depth %d\n", depth);
    return 0;
}
