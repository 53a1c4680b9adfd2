/* Messages round a circle of threads over lock-free rings with C11 acquire and release: atomics-heavy.
 *
 *   ring MESSAGES THREADS
 *
 * Each thread owns the ring it reads from (one producer, one consumer); thread 0 sends numbered messages, every
 * thread adds its mark and passes them on, thread 0 takes them back. A shared counter is bumped relaxed by all.
 * Check: every message comes back in order with the marks of all threads, and the counter has counted each hop.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY = 1024, THREADS_MAX = 64, SPINS = 64 };

struct message {
    uint64_t number;
    uint64_t marks;
};

/* Head and tail only grow; slot i is i % CAPACITY. Each sits on a cache line of its own. */
struct ring {
    _Alignas(64) _Atomic uint64_t head;    /* written by the consumer */
    _Alignas(64) _Atomic uint64_t tail;    /* written by the producer */
    _Alignas(64) struct message slot[CAPACITY];
};

static struct ring rings[THREADS_MAX];
static _Atomic uint64_t hops;
static uint64_t messages;
static unsigned long threads;

static int try_send(struct ring *ring, struct message message)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&ring->head, memory_order_acquire) == CAPACITY)
        return 0;
    ring->slot[tail % CAPACITY] = message;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return 1;
}

static int try_receive(struct ring *ring, struct message *message)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
        return 0;
    *message = ring->slot[head % CAPACITY];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return 1;
}

/* Waits politely: threads may outnumber cores. */
static void pause_after(unsigned *idle)
{
    if (++*idle >= SPINS) {
        *idle = 0;
        sched_yield();
    }
}

static uint64_t mark(unsigned long thread, uint64_t number)
{
    uint64_t x = number * 0x9e3779b97f4a7c15ULL + thread;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ULL;
    return x ^ x >> 32;
}

/* Threads 1 to threads-1: receive, mark, pass on. */
static void *relay(void *argument)
{
    unsigned long me = (unsigned long)argument;
    struct ring *in = &rings[me], *out = &rings[(me + 1) % threads];
    unsigned idle = 0;

    for (uint64_t i = 0; i < messages; i++) {
        struct message message;
        while (!try_receive(in, &message))
            pause_after(&idle);
        message.marks += mark(me, message.number);
        atomic_fetch_add_explicit(&hops, 1, memory_order_relaxed);
        while (!try_send(out, message))
            pause_after(&idle);
    }
    return NULL;
}

/* Thread 0: sends what fits, takes back what has come round; the number of wrong messages. */
static uint64_t circulate(void)
{
    uint64_t sent = 0, received = 0, wrong = 0;
    unsigned idle = 0;

    while (received < messages) {
        int moved = 0;
        struct message message = {sent, mark(0, sent)};
        if (sent < messages && sent - received < CAPACITY && try_send(&rings[1 % threads], message)) {
            sent++;
            moved = 1;
        }
        if (try_receive(&rings[0], &message)) {
            uint64_t want = 0;
            for (unsigned long t = 0; t < threads; t++)
                want += mark(t, received);
            wrong += message.number != received || message.marks != want;
            atomic_fetch_add_explicit(&hops, 1, memory_order_relaxed);
            received++;
            moved = 1;
        }
        if (!moved)
            pause_after(&idle);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    messages = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (messages == 0 || threads == 0 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: ring MESSAGES THREADS   (THREADS 1 to %d)\n", THREADS_MAX);
        return 2;
    }

    pthread_t tid[THREADS_MAX];
    for (unsigned long t = 1; t < threads; t++)
        if (pthread_create(&tid[t], NULL, relay, (void *)t) != 0)
            return 3;
    uint64_t wrong = circulate();
    for (unsigned long t = 1; t < threads; t++)
        pthread_join(tid[t], NULL);

    uint64_t counted = atomic_load_explicit(&hops, memory_order_relaxed);
    if (wrong != 0 || counted != messages * threads) {
        fprintf(stderr, "ring: %llu wrong messages, %llu hops\n", (unsigned long long)wrong,
                (unsigned long long)counted);
        return 1;
    }
    printf("ok ring %llu\n", (unsigned long long)counted);
    return 0;
}
