// Two locks that are words, as those of Rust's standard library, taken in two orders.
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_uint accounts, journal;
static int balance;

static void lock(atomic_uint *word)
{
    unsigned unlocked = 0;
    if (atomic_compare_exchange_strong_explicit(word, &unlocked, 1, memory_order_acquire, memory_order_relaxed))
        return;
    while (atomic_exchange_explicit(word, 2, memory_order_acquire) != 0)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(atomic_uint *word)
{
    if (atomic_exchange_explicit(word, 0, memory_order_release) == 2)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *audit(void *orderly)
{
    lock(orderly ? &accounts : &journal);
    lock(orderly ? &journal : &accounts);
    balance++;
    unlock(&accounts);
    unlock(&journal);
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argv;
    pthread_t auditor;
    pthread_create(&auditor, NULL, audit, argc > 1 ? &balance : NULL);
    lock(&accounts);
    lock(&journal);
    balance++;
    unlock(&journal);
    unlock(&accounts);
    pthread_join(auditor, NULL);
    printf("%d\n", balance);
    return 0;
}
