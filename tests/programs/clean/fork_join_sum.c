// No lock at all: creation and join order every access.
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, PART = 1000 };
static long numbers[THREADS * PART], sums[THREADS];

static void *add(void *arg) {
    long me = (long)arg;
    for (int i = 0; i < PART; i++) sums[me] += numbers[me * PART + i];
    return NULL;
}

int main(void) {
    pthread_t t[THREADS];
    long total = 0;
    for (long i = 0; i < THREADS * PART; i++) numbers[i] = i;
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, add, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++) total += sums[i];
    printf("total %ld\n", total);
    puts("EXIT-SUCCESS");
    return total == 7998000 ? 0 : 1;
}
