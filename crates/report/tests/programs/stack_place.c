// Does more or less, as its first frame happens to lie.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

static atomic_int shared;

static void *other(void *arg)
{
    shared++;
    return arg;
}

int main(void)
{
    int local = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, other, &local);
    for (uintptr_t left = ((uintptr_t)&local & 0xfff) >> 4; left > 0; left--)
        shared++;
    return pthread_join(thread, NULL);
}
