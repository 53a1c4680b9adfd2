// A lookup takes the read lock, which is right for the table, and counts its hit, which needs a
// write lock. Two readers lose a count.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int table[4] = {2, 3, 5, 7};
static int hits;

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
    int before = hits; //~ guilty
    int after = count_hit(before, *(int *)arg);
    hits = after; //~ guilty
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
