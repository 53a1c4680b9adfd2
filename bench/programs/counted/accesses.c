// Two threads and one variable: main writes it N times, the worker M times.
//
// Main makes the worker and has then N + 1 points, its writes and the join. The worker has M + 2: it begins, writes and
// ends. A schedule says in which order these points are arrived at; a join that comes early waits.
//
//   0 preemptions   1: main goes on to its join and waits, then the worker runs.
//   1 preemption    at any of main's points the worker may run instead, to its end: N + 1 more.
//   2 preemptions   the worker, chosen at one of N + 1 points, has begun and may be stopped at any of its other M + 1
//                   points; main then goes on to its join: (N + 1)(M + 1) more.
//   any number      every order of N + 1 and M + 2 points: C(N + M + 3, N + 1).
//
//@ count N=1 M=1: 1 3 7 all 10
//@ count N=1 M=3: 1 3 11 all 21
//@ count N=2 M=2: 1 4 13 all 35
//@ count N=3 M=3: 1 5 21 all 126

#include <pthread.h>

#define WRITES_1 shared = 1;
#define WRITES_2 WRITES_1 shared = 2;
#define WRITES_3 WRITES_2 shared = 3;
#define PASTE(a, b) a##b
#define WRITES(count) PASTE(WRITES_, count)

static volatile int shared;

static void *worker(void *arg)
{
    WRITES(M)
    return arg;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    WRITES(N)
    return pthread_join(thread, NULL);
}
