// C11 atomics: release and acquire publication, fences around relaxed accesses, a lock from atomic_flag,
// compare-and-swap, a sequence lock whose reader looks twice, and sequentially consistent flags.

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { ROUNDS = 50 };

static int plain_a, plain_b, guarded;
static atomic_int published_a, published_b, swaps, torn, both;
static atomic_flag flag = ATOMIC_FLAG_INIT;
static atomic_uint sequence;
static atomic_int left, right;
static atomic_int wants[2];

static void lock_flag(void)
{
    while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire))
        sched_yield();
}

static void unlock_flag(void)
{
    atomic_flag_clear_explicit(&flag, memory_order_release);
}

static void shared_steps(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        lock_flag();
        guarded++;
        unlock_flag();
        int old = atomic_load_explicit(&swaps, memory_order_relaxed);
        while (!atomic_compare_exchange_weak(&swaps, &old, old + 2))
            ;
    }
}

/* At most one of two threads may enter: needs sequential consistency. */
static int try_enter(int me)
{
    atomic_store(&wants[me], 1);
    return atomic_load(&wants[1 - me]) == 0;
}

static void *writer(void *arg)
{
    (void)arg;
    plain_a = 11;
    atomic_store_explicit(&published_a, 1, memory_order_release);
    plain_b = 22;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&published_b, 1, memory_order_relaxed);
    for (int i = 1; i <= ROUNDS; i++) {
        atomic_fetch_add(&sequence, 1);
        atomic_store(&left, i);
        atomic_store(&right, i);
        atomic_fetch_add(&sequence, 1);
    }
    atomic_fetch_add(&both, try_enter(0));
    shared_steps();
    return NULL;
}

static void *reader(void *arg)
{
    int *sum = arg;
    while (!atomic_load_explicit(&published_a, memory_order_acquire))
        sched_yield();
    *sum = plain_a;
    while (!atomic_load_explicit(&published_b, memory_order_relaxed))
        sched_yield();
    atomic_thread_fence(memory_order_acquire);
    *sum += plain_b;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned before = atomic_load(&sequence);
        int l = atomic_load(&left), r = atomic_load(&right);
        if (!(before & 1) && atomic_load(&sequence) == before && l != r)
            atomic_fetch_add(&torn, 1);
    }
    atomic_fetch_add(&both, try_enter(1));
    shared_steps();
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int sum = 0;
    pthread_create(&a, NULL, writer, NULL);
    pthread_create(&b, NULL, reader, &sum);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    int ok = sum == 33 && guarded == 2 * ROUNDS && swaps == 4 * ROUNDS && torn == 0 && both <= 1;
    puts(ok ? "atomics in order" : "atomics out of order");
    return ok ? 0 : 1;
}
