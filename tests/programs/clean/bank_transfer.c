// Accounts with a lock each, taken in address order; the sum never changes.
#include <pthread.h>
#include <stdio.h>

enum { ACCOUNTS = 8, THREADS = 4, ROUNDS = 500 };
static struct { pthread_mutex_t lock; long money; } accounts[ACCOUNTS];

static void *clerk(void *arg) {
    unsigned n = (unsigned)(long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        n = n * 1103515245 + 12345;
        int from = n / 65536 % ACCOUNTS, to = n / 524288 % ACCOUNTS;
        if (from == to) continue;
        int first = from < to ? from : to, second = from < to ? to : from;
        pthread_mutex_lock(&accounts[first].lock);
        pthread_mutex_lock(&accounts[second].lock);
        accounts[from].money -= 1;
        accounts[to].money += 1;
        pthread_mutex_unlock(&accounts[second].lock);
        pthread_mutex_unlock(&accounts[first].lock);
    }
    return NULL;
}

int main(void) {
    pthread_t t[THREADS];
    long sum = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        pthread_mutex_init(&accounts[i].lock, NULL);
        accounts[i].money = 100;
    }
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, clerk, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < ACCOUNTS; i++) sum += accounts[i].money;
    printf("sum %ld\n", sum);
    puts("EXIT-SUCCESS");
    return sum == 800 ? 0 : 1;
}
