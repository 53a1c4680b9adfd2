// Two tellers add to one balance without a lock.
// Read, read, write, write: the second write forgets the first deposit.

#include <pthread.h>
#include <stdio.h>

static long balance = 100;
static long receipts;

/* Prints the slip: the work between reading and writing the balance. */
__attribute__((noinline)) static long slip(long seen, long amount)
{
    __atomic_fetch_add(&receipts, 1, __ATOMIC_RELAXED);
    return seen + amount;
}

static void *deposit(void *arg)
{
    long amount = (long)arg;
    long seen = balance; //~ guilty
    long next = slip(seen, amount);
    balance = next; //~ guilty
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
