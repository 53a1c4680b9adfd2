// The writer makes the sequence number odd, stores two halves of a time and makes it even again.
// The reader waits for an even number, but does not compare it again after reading: a whole
// update fits between its two reads.
// Fixed: the reader retries when the number has changed.

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_uint sequence;
static atomic_int seconds = 1;
static atomic_int nanos = 900;

static void *tick(void *arg)
{
    (void)arg;
    atomic_fetch_add(&sequence, 1);
    atomic_store(&seconds, 2);
    atomic_store(&nanos, 100);
    atomic_fetch_add(&sequence, 1);
    return NULL;
}

static void *read_clock(void *arg)
{
    int s, n;
    unsigned before;
    do {
        while ((before = atomic_load(&sequence)) & 1)
            sched_yield();
        s = atomic_load(&seconds);
        n = atomic_load(&nanos);
    } while (atomic_load(&sequence) != before);
    int now = s * 1000 + n;
    assert(now == 1900 || now == 2100);
    *(int *)arg = now + (int)(before & 1);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int now = 0;
    pthread_create(&a, NULL, tick, NULL);
    pthread_create(&b, NULL, read_clock, &now);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("clock is %s\n", now > 0 ? "whole" : "unread");
    return 0;
}
