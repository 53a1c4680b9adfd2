// A counter without a lock: updates can be lost. Ends normally either way.
#include <pthread.h>
#include <stdio.h>

static long counter;

// Not inlined: else the compiler may keep the counter in a register for the whole loop.
__attribute__((noinline)) static void add_one(void) {
    counter++; //~ race
}

static void *add(void *arg) {
    for (int i = 0; i < 100; i++)
        add_one();
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
