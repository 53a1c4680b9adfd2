/* Shared hash map with chained buckets and one lock for each group of buckets: pointer-chasing.
 *
 *   map OPERATIONS THREADS
 *
 * Chains are kept sorted and long on purpose, so that most of the time goes to following pointers under a lock.
 * Each thread inserts, finds, adds to and removes keys; keys of all threads share the chains. Check: each thread
 * knows what its own keys must hold; the sum over the map at the end must be what the threads think they left.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 1024, LOCKS = 64, THREADS_MAX = 64, KEYS = 8192 };   /* KEYS: for each thread */

struct node {
    struct node *next;
    uint64_t key, value;
};

static struct node *bucket[BUCKETS];
static pthread_mutex_t lock[LOCKS];

struct worker {
    pthread_t tid;
    uint64_t id, random;
    uint64_t held[KEYS];       /* what this thread believes the map holds; 0 = absent */
    uint64_t wrong;
};

static unsigned long operations;    /* for each thread */

static size_t place(uint64_t key)
{
    return (size_t)(key * 0x9e3779b97f4a7c15ULL >> 54);    /* the top 10 bits: BUCKETS is 1024 */
}

static pthread_mutex_t *guard(size_t at)
{
    return &lock[at % LOCKS];
}

/* The link that points to the first node of the chain whose key is not smaller. The lock is held. */
static struct node **seek(size_t at, uint64_t key)
{
    struct node **link = &bucket[at];
    while (*link && (*link)->key < key)
        link = &(*link)->next;
    return link;
}

/* Adds `amount` to the key's value, and the key itself when it is absent; the new value. */
static uint64_t add(uint64_t key, uint64_t amount)
{
    size_t at = place(key);
    pthread_mutex_lock(guard(at));
    struct node **link = seek(at, key), *node = *link;
    if (!node || node->key != key) {
        node = malloc(sizeof *node);
        if (!node)
            abort();
        *node = (struct node){*link, key, 0};
        *link = node;
    }
    uint64_t value = node->value += amount;
    pthread_mutex_unlock(guard(at));
    return value;
}

static uint64_t find(uint64_t key)
{
    size_t at = place(key);
    pthread_mutex_lock(guard(at));
    struct node *node = *seek(at, key);
    uint64_t value = node && node->key == key ? node->value : 0;
    pthread_mutex_unlock(guard(at));
    return value;
}

static uint64_t take(uint64_t key)
{
    size_t at = place(key);
    uint64_t value = 0;
    pthread_mutex_lock(guard(at));
    struct node **link = seek(at, key), *node = *link;
    if (node && node->key == key) {
        *link = node->next;
        value = node->value;
        free(node);
    }
    pthread_mutex_unlock(guard(at));
    return value;
}

static void *run(void *argument)
{
    struct worker *me = argument;
    for (unsigned long i = 0; i < operations; i++) {
        me->random ^= me->random << 13;
        me->random ^= me->random >> 7;
        me->random ^= me->random << 17;
        size_t mine = (size_t)(me->random >> 20) % KEYS;
        uint64_t key = (uint64_t)mine * THREADS_MAX + me->id, *held = &me->held[mine];
        switch (me->random % 8) {
        case 0:
        case 1:
            *held += i + 1;
            me->wrong += add(key, i + 1) != *held;
            break;
        case 2:
            me->wrong += take(key) != *held;
            *held = 0;
            break;
        default:
            me->wrong += find(key) != *held;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long total = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned long threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (total == 0 || threads == 0 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: map OPERATIONS THREADS   (THREADS 1 to %d)\n", THREADS_MAX);
        return 2;
    }
    operations = total / threads;
    struct worker *workers = calloc(threads, sizeof *workers);
    if (!workers)
        return 3;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&lock[i], NULL);
    for (unsigned long t = 0; t < threads; t++) {
        workers[t].id = t;
        workers[t].random = 88172645463325252ULL + t;
        if (pthread_create(&workers[t].tid, NULL, run, &workers[t]) != 0)
            return 3;
    }

    uint64_t wrong = 0, want = 0, have = 0;
    for (unsigned long t = 0; t < threads; t++) {
        pthread_join(workers[t].tid, NULL);
        wrong += workers[t].wrong;
        for (int k = 0; k < KEYS; k++)
            want += workers[t].held[k];
    }
    for (int b = 0; b < BUCKETS; b++)
        for (struct node *node = bucket[b], *next; node; node = next) {
            have += node->value;
            next = node->next;
            free(node);
        }
    free(workers);
    if (wrong != 0 || want != have) {
        fprintf(stderr, "map: %llu wrong answers, sum off by %lld\n", (unsigned long long)wrong,
                (long long)(have - want));
        return 1;
    }
    printf("ok map %016llx\n", (unsigned long long)have);
    return 0;
}
