//@ deadlock: every
//@ timeout: 2
// A barrier for three, and two who come.
#include "../hostile/check.h"

static pthread_barrier_t barrier;

static void *worker(void *arg) {
    pthread_barrier_wait(&barrier);
    return arg;
}

int main(void) {
    CHECK(pthread_barrier_init(&barrier, NULL, 3) == 0);
    pthread_t a = spawn(worker, NULL), b = spawn(worker, NULL);
    join(a);
    join(b);
    return done();
}
