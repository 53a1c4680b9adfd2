// A spin lock waits until its flag is clear and then sets it. All accesses are atomic, the pair
// is not: two threads see the flag clear and both enter the critical section.
// Fixed: test and set are one exchange.

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int taken;
static atomic_int inside;
static atomic_int visits;

__attribute__((noinline)) static void enter(void)
{
    while (atomic_exchange(&taken, 1))
        sched_yield();
}

__attribute__((noinline)) static void leave(void)
{
    atomic_store(&taken, 0);
}

static void *worker(void *arg)
{
    (void)arg;
    enter();
    int others = atomic_fetch_add(&inside, 1);
    assert(others == 0);
    atomic_fetch_add(&visits, 1);
    atomic_fetch_sub(&inside, 1);
    leave();
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, worker, NULL);
    pthread_create(&b, NULL, worker, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d visits, one at a time\n", visits);
    return 0;
}
