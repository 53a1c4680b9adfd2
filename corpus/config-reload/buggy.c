// The statistics thread reads the packed configuration word, sets a bit and writes it back.
// A reload stores a whole new word in between, which is then overwritten by the old one.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { OLD = 0x10, NEW = 0x20, STATS_ON = 1 };

static atomic_int config = OLD;
static int updates;

__attribute__((noinline)) static int with_stats(int word)
{
    updates++;
    return word | STATS_ON;
}

static void *enable_stats(void *arg)
{
    (void)arg;
    int word = atomic_load(&config); //~ guilty
    word = with_stats(word);
    atomic_store(&config, word); //~ guilty
    return NULL;
}

static void *reload(void *arg)
{
    (void)arg;
    atomic_store(&config, NEW); //~ guilty
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, enable_stats, NULL);
    pthread_create(&b, NULL, reload, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (!(atomic_load(&config) & NEW)) {
        fprintf(stderr, "reloaded configuration was lost: %#x\n", config);
        return 1;
    }
    puts("new configuration is active");
    return 0;
}
