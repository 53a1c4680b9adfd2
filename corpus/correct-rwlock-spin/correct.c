// Read-write locks (plain, try and timed) and spin locks around a small table and its counters.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 60, SLOTS = 4 };

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t count_lock;
static int table[SLOTS];
static int lookups, torn, busy_seen;

static void *reader(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2)
            pthread_rwlock_rdlock(&table_lock);
        else
            while (pthread_rwlock_tryrdlock(&table_lock) != 0)
                sched_yield();
        int first = table[0], odd = 0;
        for (int s = 1; s < SLOTS; s++)
            odd |= table[s] != first;
        pthread_rwlock_unlock(&table_lock);
        pthread_spin_lock(&count_lock);
        lookups++;
        torn += odd;
        pthread_spin_unlock(&count_lock);
    }
    return NULL;
}

static void *writer(void *arg)
{
    (void)arg;
    for (int i = 1; i <= ROUNDS; i++) {
        if (i % 2)
            pthread_rwlock_wrlock(&table_lock);
        else
            while (pthread_rwlock_trywrlock(&table_lock) == EBUSY)
                sched_yield();
        for (int s = 0; s < SLOTS; s++)
            table[s] = i;
        pthread_rwlock_unlock(&table_lock);
    }
    return NULL;
}

static void *late_writer(void *arg)
{
    (void)arg;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    if (pthread_rwlock_timedwrlock(&table_lock, &deadline) == ETIMEDOUT) {
        while (pthread_spin_trylock(&count_lock) != 0)
            sched_yield();
        busy_seen++;
        pthread_spin_unlock(&count_lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t r1, r2, w;
    pthread_spin_init(&count_lock, PTHREAD_PROCESS_PRIVATE);
    pthread_create(&r1, NULL, reader, NULL);
    pthread_create(&r2, NULL, reader, NULL);
    pthread_create(&w, NULL, writer, NULL);
    pthread_join(r1, NULL);
    pthread_join(r2, NULL);
    pthread_join(w, NULL);

    pthread_rwlock_rdlock(&table_lock);
    pthread_create(&w, NULL, late_writer, NULL);
    pthread_join(w, NULL);
    pthread_rwlock_unlock(&table_lock);

    int ok = lookups == 2 * ROUNDS && torn == 0 && busy_seen == 1 && table[SLOTS - 1] == ROUNDS;
    pthread_spin_destroy(&count_lock);
    pthread_rwlock_destroy(&table_lock);
    puts(ok ? "table was whole in every lookup" : "a lock failed");
    return ok ? 0 : 1;
}
