// Two threads and one lock: main writes N times under it, the worker M times.
//
// Main makes the worker and has then N + 3 points: lock, writes, unlock, join. The worker has M + 4: it begins, locks,
// writes, unlocks and ends. A thread that is chosen at its lock while the other holds it waits; that is no choice.
//
//   0 preemptions   1: main goes on to its join and waits, then the worker runs.
//   1 preemption    at any of main's points the worker may run instead, to its end or to the held lock: N + 3 more.
//   2 preemptions   chosen at main's lock or at its join, the worker may be stopped at any of its points but the first:
//                   2(M + 3) more. Chosen while main is inside, which is at N + 1 points, it may be stopped at its
//                   lock; or it waits there, main leaves the lock, and at the join the worker may run instead:
//                   2(N + 1) more.
//
//@ count N=1 M=1: 1 5 17
//@ count N=1 M=3: 1 5 21
//@ count N=2 M=2: 1 6 22
//@ count N=3 M=1: 1 7 23

#include <pthread.h>

#define WRITES_1 shared = 1;
#define WRITES_2 WRITES_1 shared = 2;
#define WRITES_3 WRITES_2 shared = 3;
#define PASTE(a, b) a##b
#define WRITES(count) PASTE(WRITES_, count)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int shared;

static void *worker(void *arg)
{
    pthread_mutex_lock(&lock);
    WRITES(M)
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_mutex_lock(&lock);
    WRITES(N)
    pthread_mutex_unlock(&lock);
    return pthread_join(thread, NULL);
}
