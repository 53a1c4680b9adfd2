// A cache is searched under the read lock. On a miss the read lock is released, the write lock is
// taken and the entry is made, without a second look: two threads make it twice.
// Fixed: the search is repeated under the write lock.

#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int entry;
static int built;

static int lookup(void)
{
    pthread_rwlock_rdlock(&lock);
    int found = entry;
    pthread_rwlock_unlock(&lock);
    return found;
}

static void build(void)
{
    pthread_rwlock_wrlock(&lock);
    if (entry == 0) {
        built++;
        entry = 77;
    }
    int times = built;
    pthread_rwlock_unlock(&lock);
    assert(times == 1);
}

static void *query(void *arg)
{
    if (lookup() == 0) {
        build();
    }
    *(int *)arg = lookup();
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int first = 0, second = 0;
    pthread_create(&a, NULL, query, &first);
    pthread_create(&b, NULL, query, &second);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("entry %d built once\n", first & second);
    return 0;
}
