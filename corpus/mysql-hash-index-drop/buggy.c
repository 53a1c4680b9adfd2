// Dropping a page's hash index tests under the latch that there is one, gives the latch up to
// collect the hash values, and takes it again to remove them. Two threads pass the test
// and the index is dropped twice.

#include <assert.h>
#include <pthread.h>
#include <stdio.h>

struct index {
    int refs;
};

struct block {
    struct index *index;
    int hashes;
};

static struct index page_index = {1};
static struct block block = {&page_index, 12};
static pthread_mutex_t latch = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static int fold_values(const struct block *b)
{
    int sum = 0;
    for (int i = 0; i < b->hashes; i++)
        sum += i * 31;
    return sum;
}

static void *drop_hash_index(void *arg)
{
    pthread_mutex_lock(&latch);
    struct index *index = block.index; //~ guilty
    pthread_mutex_unlock(&latch);
    if (!index)
        return NULL;
    *(int *)arg = fold_values(&block);
    pthread_mutex_lock(&latch);
    index->refs--;
    assert(index->refs >= 0);
    block.index = NULL; //~ guilty
    pthread_mutex_unlock(&latch);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int fold_a = 0, fold_b = 0;
    pthread_create(&a, NULL, drop_hash_index, &fold_a);
    pthread_create(&b, NULL, drop_hash_index, &fold_b);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("hash index dropped once");
    return 0;
}
