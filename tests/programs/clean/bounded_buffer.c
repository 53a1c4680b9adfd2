// Two producers, two consumers, one ring with a mutex and two conditions.
#include <pthread.h>
#include <stdio.h>

enum { SIZE = 8, ITEMS = 500 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static long ring[SIZE], head, tail, total;

static void *producer(void *arg) {
    for (long i = 1; i <= ITEMS; i++) {
        pthread_mutex_lock(&lock);
        while (head - tail == SIZE) pthread_cond_wait(&not_full, &lock);
        ring[head++ % SIZE] = i;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

static void *consumer(void *arg) {
    for (long i = 1; i <= ITEMS; i++) {
        pthread_mutex_lock(&lock);
        while (head == tail) pthread_cond_wait(&not_empty, &lock);
        total += ring[tail++ % SIZE];
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

int main(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, i % 2 ? producer : consumer, NULL);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("total %ld\n", total);
    puts("EXIT-SUCCESS");
    return total == 2L * ITEMS * (ITEMS + 1) / 2 ? 0 : 1;
}
