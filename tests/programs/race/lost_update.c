// A counter without a lock: updates can be lost. Ends normally either way.
#include <pthread.h>
#include <stdio.h>

static long counter;

static void *add(void *arg) {
    for (int i = 0; i < 100; i++)
        counter++; //~ race
    return arg;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, add, NULL);
    pthread_create(&b, NULL, add, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("EXIT-SUCCESS");
    return counter < 0;
}
