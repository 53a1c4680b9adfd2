/* Two people draw from one account. Each checks the balance before taking money, and the lock is
   there for both steps, but not across them: between the check and the withdrawal the other one
   may have been served. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

static int balance = 100;
static pthread_mutex_t counter = PTHREAD_MUTEX_INITIALIZER;

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
    if (covers(80))
        take(80);
    return NULL;
}

int main(void) {
    pthread_t alice, bob;
    pthread_create(&alice, NULL, withdraw, "alice");
    pthread_create(&bob, NULL, withdraw, "bob");
    pthread_join(alice, NULL);
    pthread_join(bob, NULL);
    if (balance < 0) {
        fprintf(stderr, "overdrawn: the balance is %d\n", balance);
        return 1;
    }
    printf("the balance is %d\n", balance);
    return 0;
}
