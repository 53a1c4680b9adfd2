// A stencil over two grids; a barrier between steps is the only synchronisation.
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, CELLS = 64, STEPS = 50 };
static long grid[2][CELLS];
static pthread_barrier_t step;

static void *sweep(void *arg) {
    long me = (long)arg;
    for (int s = 0; s < STEPS; s++) {
        long *from = grid[s % 2], *to = grid[(s + 1) % 2];
        for (long i = me * CELLS / THREADS; i < (me + 1) * CELLS / THREADS; i++)
            to[i] = (from[(i + CELLS - 1) % CELLS] + from[i] + from[(i + 1) % CELLS]) % 1000003;
        pthread_barrier_wait(&step);
    }
    return NULL;
}

int main(void) {
    pthread_t t[THREADS];
    long hash = 0;
    pthread_barrier_init(&step, NULL, THREADS);
    for (int i = 0; i < CELLS; i++) grid[0][i] = i * i;
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, sweep, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < CELLS; i++) hash = (hash * 31 + grid[STEPS % 2][i]) % 1000003;
    printf("hash %ld\n", hash);
    puts("EXIT-SUCCESS");
    return 0;
}
