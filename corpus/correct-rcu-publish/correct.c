// Publication in the manner of RCU: readers announce themselves and follow a pointer without a lock; the
// writer swaps the pointer, waits until no reader can hold the old object, and frees it.

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { READERS = 2, UPDATES = 20, LOOKUPS = 40 };

struct config {
    int version;
    int check;
};

static _Atomic(struct config *) current;
static atomic_int inside[READERS];
static atomic_int bad;

static struct config *make(int version)
{
    struct config *c = malloc(sizeof *c);
    if (!c)
        abort();
    c->version = version;
    c->check = version * 3;
    return c;
}

static void *reader(void *arg)
{
    int me = *(int *)arg;
    int last = 0;
    for (int i = 0; i < LOOKUPS; i++) {
        atomic_store(&inside[me], 1);
        struct config *c = atomic_load(&current);
        if (c->check != c->version * 3 || c->version < last)
            atomic_fetch_add(&bad, 1);
        last = c->version;
        atomic_store(&inside[me], 0);
    }
    return NULL;
}

/* Every reader is seen outside once after the swap: none can hold the old object any more. */
static void wait_for_readers(void)
{
    for (int i = 0; i < READERS; i++)
        while (atomic_load(&inside[i]))
            sched_yield();
}

static void *writer(void *arg)
{
    (void)arg;
    for (int version = 2; version <= UPDATES; version++) {
        struct config *old = atomic_exchange(&current, make(version));
        wait_for_readers();
        free(old);
    }
    return NULL;
}

int main(void)
{
    pthread_t readers[READERS], updater;
    int ids[READERS];
    atomic_store(&current, make(1));
    for (int i = 0; i < READERS; i++) {
        ids[i] = i;
        pthread_create(&readers[i], NULL, reader, &ids[i]);
    }
    pthread_create(&updater, NULL, writer, NULL);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(updater, NULL);
    struct config *last = atomic_load(&current);
    int ok = atomic_load(&bad) == 0 && last->version == UPDATES;
    free(last);
    puts(ok ? "readers saw whole versions in order" : "a reader saw a broken version");
    return ok ? 0 : 1;
}
