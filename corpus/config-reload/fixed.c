// The statistics thread reads the packed configuration word, sets a bit and writes it back.
// A reload stores a whole new word in between, which is then overwritten by the old one.
// Fixed: the bit is set by one atomic operation.

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
    atomic_fetch_or(&config, with_stats(0));
    return NULL;
}

static void *reload(void *arg)
{
    (void)arg;
    atomic_store(&config, NEW);
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
