// Releasing an object decrements its reference count atomically and then reads it again to see
// whether it was the last. Two threads decrement, both read zero, both clean up.

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct cache_object {
    atomic_int refcount;
    atomic_int cleaned;
};

static struct cache_object object = {2, 0};
static atomic_int served;

__attribute__((noinline)) static void cleanup(struct cache_object *obj)
{
    int before = atomic_fetch_add(&obj->cleaned, 1);
    assert(before == 0);
}

__attribute__((noinline)) static void release(struct cache_object *obj)
{
    atomic_fetch_sub(&obj->refcount, 1); //~ guilty
    if (atomic_load(&obj->refcount) == 0) //~ guilty
        cleanup(obj);
}

static void *request(void *arg)
{
    atomic_fetch_add(&served, 1);
    release(arg);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, request, &object);
    pthread_create(&b, NULL, request, &object);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d requests served, object cleaned %d time\n", served, object.cleaned);
    return object.cleaned == 1 ? 0 : 1;
}
