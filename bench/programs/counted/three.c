// Main makes two workers, A and B, each of which writes once, and joins them in this order. A worker has three points: it
// begins, writes and ends.
//
//   0 preemptions   main waits for A. A first: then main, which waits for B, or B. B first: then A. In all 3.
//   1 preemption    at the making of B: A runs; 1 more. At the first join: A or B runs, and after its end either of the
//                   others may: 4 more. At A's two later points, A first: B runs; 2 more. After A's end, at main's
//                   second join: B runs; 1 more. After A's end, at B's two later points: main runs; 2 more. At B's two
//                   later points, B first: A runs, and after its end either main or B may; 4 more. In all 3 + 14.
//
//@ count: 3 17

#include <pthread.h>

static volatile int shared;

static void *worker(void *arg)
{
    shared = 1;
    return arg;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, worker, NULL);
    pthread_create(&b, NULL, worker, NULL);
    pthread_join(a, NULL);
    return pthread_join(b, NULL);
}
