// Two tellers add to one balance without a lock.
// Read, read, write, write: the second write forgets the first deposit.
// Fixed: the read and the write of the balance are one critical section.

#include <pthread.h>
#include <stdio.h>

static long balance = 100;
static long receipts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Prints the slip: the work between reading and writing the balance. */
__attribute__((noinline)) static long slip(long seen, long amount)
{
    __atomic_fetch_add(&receipts, 1, __ATOMIC_RELAXED);
    return seen + amount;
}

static void *deposit(void *arg)
{
    long amount = (long)arg;
    pthread_mutex_lock(&lock);
    long seen = balance;
    long next = slip(seen, amount);
    balance = next;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, deposit, (void *)10L);
    pthread_create(&b, NULL, deposit, (void *)20L);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (balance != 130) {
        fprintf(stderr, "lost deposit: balance is %ld, expected 130\n", balance);
        return 1;
    }
    printf("balance %ld after %ld receipts\n", balance, receipts);
    return 0;
}
