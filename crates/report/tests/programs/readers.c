// Two readers each want to write what the other reads; a third reader is in the way as well.
#include <pthread.h>
#include <stdio.h>

static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t index_ = PTHREAD_RWLOCK_INITIALIZER;
static int rows, keys;

static void *insert(void *unused)
{
    pthread_rwlock_rdlock(&index_);
    int next = keys + 1;
    pthread_rwlock_wrlock(&table);
    rows = next;
    pthread_rwlock_unlock(&table);
    pthread_rwlock_unlock(&index_);
    return unused;
}

static void *rebuild(void *unused)
{
    pthread_rwlock_rdlock(&table);
    int now = rows;
    pthread_rwlock_wrlock(&index_);
    keys = now;
    pthread_rwlock_unlock(&index_);
    pthread_rwlock_unlock(&table);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    void *(*what[3])(void *) = {insert, rebuild, rebuild};
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, what[i], NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", rows + keys);
    return 0;
}
