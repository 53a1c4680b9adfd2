// A plain message handed over by relaxed atomics and fences only.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MESSAGES = 300 };
static long message;
static atomic_int full;

static void *send(void *arg) {
    for (long i = 1; i <= MESSAGES; i++) {
        while (atomic_load_explicit(&full, memory_order_relaxed)) sched_yield();
        atomic_thread_fence(memory_order_acquire);
        message = i;
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&full, 1, memory_order_relaxed);
    }
    return arg;
}

int main(void) {
    pthread_t t;
    long total = 0;
    pthread_create(&t, NULL, send, NULL);
    for (int i = 0; i < MESSAGES; i++) {
        while (!atomic_load_explicit(&full, memory_order_relaxed)) sched_yield();
        atomic_thread_fence(memory_order_acquire);
        total += message;
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&full, 0, memory_order_relaxed);
    }
    pthread_join(t, NULL);
    printf("total %ld\n", total);
    puts("EXIT-SUCCESS");
    return total == MESSAGES * (MESSAGES + 1) / 2 ? 0 : 1;
}
