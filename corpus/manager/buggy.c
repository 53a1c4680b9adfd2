// A memory manager tests that there is a free block and then takes the last one. The second
// worker takes it in between, and the index of the free list drops below zero.

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int free_blocks = 1;
static atomic_int waits;
static int owner[1];

__attribute__((noinline)) static void request(int who)
{
    if (atomic_load(&free_blocks) > 0) { //~ guilty
        int at = atomic_fetch_sub(&free_blocks, 1) - 1; //~ guilty
        assert(at >= 0);
        owner[at] = who;
    } else {
        atomic_fetch_add(&waits, 1);
    }
}

static void *worker(void *arg)
{
    request(*(int *)arg);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int first = 1, second = 2;
    pthread_create(&a, NULL, worker, &first);
    pthread_create(&b, NULL, worker, &second);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("block went to one worker, %d waits\n", waits);
    return owner[0] != 0 && waits == 1 ? 0 : 1;
}
