// The __sync builtins of every width, fences in all orders, atomic_flag, a Dekker
// and a message-passing test that only fences keep right.
#include "check.h"
#include <stdatomic.h>

#define SYNC(T)                                                                                        \
    do {                                                                                               \
        T x = 10;                                                                                      \
        CHECK(__sync_fetch_and_add(&x, 5) == 10 && __sync_add_and_fetch(&x, 5) == 20);                 \
        CHECK(__sync_fetch_and_sub(&x, 3) == 20 && __sync_sub_and_fetch(&x, 3) == 14);                 \
        CHECK(__sync_fetch_and_or(&x, 1) == 14 && __sync_or_and_fetch(&x, 32) == 47);                  \
        CHECK(__sync_fetch_and_and(&x, 0x2c) == 47 && __sync_and_and_fetch(&x, 0x24) == 0x24);         \
        CHECK(__sync_fetch_and_xor(&x, 0x0f) == 0x24 && __sync_xor_and_fetch(&x, 0x0f) == 0x24);       \
        CHECK(__sync_nand_and_fetch(&x, 0x04) == (T)~0x04);                                            \
        CHECK(__sync_val_compare_and_swap(&x, 1, 2) == (T)~0x04);                                      \
        CHECK(__sync_bool_compare_and_swap(&x, (T)~0x04, 2) && x == 2);                                \
        CHECK(__sync_lock_test_and_set(&x, 1) == 2);                                                   \
        __sync_lock_release(&x);                                                                       \
        CHECK(x == 0);                                                                                 \
    } while (0)

static atomic_int turn[2];
static int message[2000];
static atomic_int ready;
static atomic_flag flag = ATOMIC_FLAG_INIT;
static long guarded;

static void *dekker(void *arg) {
    int me = (int)(long)arg;
    atomic_store_explicit(&turn[me], 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return (void *)(long)atomic_load_explicit(&turn[!me], memory_order_relaxed);
}

static void *sender(void *arg) {
    for (int i = 0; i < 2000; i++) {
        message[i] = i * 3;
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&ready, i + 1, memory_order_relaxed);
        while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire)) sched_yield();
        guarded++;
        atomic_flag_clear_explicit(&flag, memory_order_release);
    }
    return arg;
}

int main(void) {
    SYNC(int8_t);
    SYNC(uint16_t);
    SYNC(int32_t);
    SYNC(uint64_t);
    for (int i = 0; i < 200; i++) {
        turn[0] = turn[1] = 0;
        pthread_t a = spawn(dekker, (void *)0), b = spawn(dekker, (void *)1);
        CHECK((long)join(a) + (long)join(b) >= 1);
    }
    pthread_t s = spawn(sender, NULL);
    for (int got = 0; got < 2000;) {
        int now = atomic_load_explicit(&ready, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        for (; got < now; got++) CHECK(message[got] == got * 3);
        while (atomic_flag_test_and_set(&flag)) sched_yield();
        guarded++, guarded--;
        atomic_flag_clear(&flag);
    }
    join(s);
    CHECK(guarded == 2000);
    atomic_signal_fence(memory_order_seq_cst);
    __sync_synchronize();
    atomic_thread_fence(memory_order_acq_rel);
    puts("sync and fences");
    return done();
}
