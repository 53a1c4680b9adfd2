/* Bounded queue between producers and consumers under one mutex and two condition variables: lock-heavy.
 *
 *   queue ITEMS THREADS
 *
 * Half of the threads (at least one) produce, as many consume; each item is put and taken alone, so nearly all the
 * time goes to locking, waiting and waking. Check: count, sum and xor of what was taken, and the order of the items
 * of each producer as each consumer sees them.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY = 128, PAIRS_MAX = 32, WORK = 24 };

struct item {
    uint32_t producer;
    uint32_t number;     /* 1, 2, 3, ... for each producer */
    uint64_t value;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct item slot[CAPACITY];
    size_t head, count;
    unsigned long open;  /* producers that have not finished */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .not_empty = PTHREAD_COND_INITIALIZER,
           .not_full = PTHREAD_COND_INITIALIZER};

struct tally {
    uint64_t count, sum, mix;
    int out_of_order;
};

static unsigned long pairs, items;          /* items: for each producer */
static struct tally made[PAIRS_MAX], taken[PAIRS_MAX];

static void put(struct item item)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.count == CAPACITY)
        pthread_cond_wait(&queue.not_full, &queue.lock);
    queue.slot[(queue.head + queue.count) % CAPACITY] = item;
    queue.count++;
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
}

/* Takes one item; 0 when the queue is empty and every producer has finished. */
static int take(struct item *item)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && queue.open > 0)
        pthread_cond_wait(&queue.not_empty, &queue.lock);
    if (queue.count == 0) {
        pthread_mutex_unlock(&queue.lock);
        return 0;
    }
    *item = queue.slot[queue.head];
    queue.head = (queue.head + 1) % CAPACITY;
    queue.count--;
    pthread_cond_signal(&queue.not_full);
    pthread_mutex_unlock(&queue.lock);
    return 1;
}

/* A little private work for each item, so that the lock is not everything. */
static uint64_t work(uint64_t x)
{
    for (int i = 0; i < WORK; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

static void count(struct tally *tally, uint64_t value)
{
    tally->count++;
    tally->sum += value;
    tally->mix ^= value;
}

static void *produce(void *argument)
{
    unsigned long me = (unsigned long)argument;
    for (uint32_t i = 1; i <= items; i++) {
        struct item item = {(uint32_t)me, i, work(((uint64_t)(me + 1) << 32) + i)};
        count(&made[me], item.value);
        put(item);
    }
    pthread_mutex_lock(&queue.lock);
    if (--queue.open == 0)
        pthread_cond_broadcast(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

static void *consume(void *argument)
{
    unsigned long me = (unsigned long)argument;
    uint32_t last[PAIRS_MAX] = {0};
    struct item item;
    while (take(&item)) {
        uint64_t want = work(((uint64_t)(item.producer + 1UL) << 32) + item.number);
        if (item.value != want || item.number <= last[item.producer])
            taken[me].out_of_order = 1;
        last[item.producer] = item.number;
        count(&taken[me], item.value);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long total = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned long threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (total == 0 || threads < 2 || threads / 2 > PAIRS_MAX) {
        fprintf(stderr, "usage: queue ITEMS THREADS   (THREADS 2 to %d)\n", 2 * PAIRS_MAX);
        return 2;
    }
    pairs = threads / 2;
    items = total / pairs;
    queue.open = pairs;

    pthread_t producer[PAIRS_MAX], consumer[PAIRS_MAX];
    for (unsigned long i = 0; i < pairs; i++)
        if (pthread_create(&consumer[i], NULL, consume, (void *)i) != 0
            || pthread_create(&producer[i], NULL, produce, (void *)i) != 0)
            return 3;
    for (unsigned long i = 0; i < pairs; i++) {
        pthread_join(producer[i], NULL);
        pthread_join(consumer[i], NULL);
    }

    struct tally in = {0}, out = {0};
    for (unsigned long i = 0; i < pairs; i++) {
        in.count += made[i].count, in.sum += made[i].sum, in.mix ^= made[i].mix;
        out.count += taken[i].count, out.sum += taken[i].sum, out.mix ^= taken[i].mix;
        out.out_of_order |= taken[i].out_of_order;
    }
    if (in.count != out.count || in.sum != out.sum || in.mix != out.mix || out.out_of_order) {
        fprintf(stderr, "queue: items lost, doubled or out of order\n");
        return 1;
    }
    printf("ok queue %lu %016llx\n", (unsigned long)out.count, (unsigned long long)out.mix);
    return 0;
}
