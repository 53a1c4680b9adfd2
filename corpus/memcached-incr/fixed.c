// The increment command gets the item under the cache lock, computes, and stores the new value
// under the cache lock. There is no data race, but an increment is lost.
// Fixed: the lock is held from get to store.

#include <pthread.h>
#include <stdio.h>

static int cache_value = 5;
static int commands;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

static int item_get(void)
{
    int value = cache_value;
    return value;
}

static void item_replace(int value)
{
    cache_value = value;
    commands++;
}

static void *increment(void *arg)
{
    int delta = *(int *)arg;
    pthread_mutex_lock(&cache_lock);
    int value = item_get();
    item_replace(value + delta);
    pthread_mutex_unlock(&cache_lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int one = 1, two = 2;
    pthread_create(&a, NULL, increment, &one);
    pthread_create(&b, NULL, increment, &two);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (cache_value != 8) {
        fprintf(stderr, "counter is %d after %d commands, expected 8\n", cache_value, commands);
        return 1;
    }
    puts("counter 8");
    return 0;
}
