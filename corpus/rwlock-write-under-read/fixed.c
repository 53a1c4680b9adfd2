// A lookup takes the read lock, which is right for the table, and counts its hit, which needs a
// write lock. Two readers lose a count.
// Fixed: the counter has a lock of its own.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int table[4] = {2, 3, 5, 7};
static int hits;
static pthread_mutex_t hits_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static int count_hit(int before, int value)
{
    for (int i = 0; i < 4; i++)
        if (table[i] == value)
            return before + 1;
    return before;
}

static void *lookup(void *arg)
{
    pthread_rwlock_rdlock(&lock);
    pthread_mutex_lock(&hits_lock);
    int before = hits;
    int after = count_hit(before, *(int *)arg);
    hits = after;
    pthread_mutex_unlock(&hits_lock);
    pthread_rwlock_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int three = 3, seven = 7;
    pthread_create(&a, NULL, lookup, &three);
    pthread_create(&b, NULL, lookup, &seven);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (hits != 2) {
        fprintf(stderr, "%d hits counted of 2\n", hits);
        return 1;
    }
    puts("2 hits");
    return 0;
}
