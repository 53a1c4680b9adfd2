// The reader starts an asynchronous read, marks it as pending and waits until it is not. If the
// completion routine clears the mark before the reader sets it, the reader waits for ever.
// Fixed: the mark is set before the read is started.

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int io_pending;
static int data;

/* The device: takes some time to deliver. */
__attribute__((noinline)) static int device_read(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return 42 + (x == 0);
}

static void *done_waiting(void *arg)
{
    (void)arg;
    data = device_read();
    atomic_store(&io_pending, 0);
    return NULL;
}

int main(void)
{
    pthread_t device;
    atomic_store(&io_pending, 1);
    pthread_create(&device, NULL, done_waiting, NULL);
    while (atomic_load(&io_pending))
        sched_yield();
    pthread_join(device, NULL);
    printf("read %d\n", data);
    return 0;
}
