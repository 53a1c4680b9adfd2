/* Two people draw from one account. Each checks the balance before taking money, and the lock is
   there for both steps, but not across them: between the check and the withdrawal the other one
   may have been served. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int balance = 100;
static pthread_mutex_t counter = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t opening;

static int covers(int amount) {
    pthread_mutex_lock(&counter);
    int enough = balance >= amount;
    pthread_mutex_unlock(&counter);
    return enough;
}

static void take(int amount) {
    pthread_mutex_lock(&counter);
    balance -= amount;
    pthread_mutex_unlock(&counter);
}

static void *withdraw(void *name) {
    pthread_setname_np(pthread_self(), name);
    pthread_barrier_wait(&opening);
    if (covers(80)) {
        usleep(100000); /* a receipt is printed */
        take(80);
    }
    return NULL;
}

int main(void) {
    pthread_t alice, bob;
    pthread_barrier_init(&opening, NULL, 2);
    pthread_create(&alice, NULL, withdraw, "alice");
    pthread_create(&bob, NULL, withdraw, "bob");
    pthread_join(alice, NULL);
    pthread_join(bob, NULL);
    printf("the balance is %d\n", balance);
    return balance < 0;
}
