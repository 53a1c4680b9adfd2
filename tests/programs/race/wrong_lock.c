// Both sides lock, but not the same lock.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t red = PTHREAD_MUTEX_INITIALIZER, blue = PTHREAD_MUTEX_INITIALIZER;
static long balance;

static void *deposit(void *arg) {
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&red);
        balance += 2; //~ race
        pthread_mutex_unlock(&red);
    }
    return arg;
}

static void *withdraw(void *arg) {
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&blue);
        balance -= 1; //~ race
        pthread_mutex_unlock(&blue);
    }
    return arg;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, deposit, NULL);
    pthread_create(&b, NULL, withdraw, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("EXIT-SUCCESS");
    return 0;
}
