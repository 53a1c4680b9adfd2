//@ plain: lib_lock.c
// A lock and a condition inside a library that was built without instrumentation; its callback has points.
#include "../hostile/check.h"

void count_up(void (*inside)(void));
long wait_for(long least);
static long shared;

static void inside(void) { shared++; }

static void *worker(void *arg) {
    for (int i = 0; i < 5; i++) count_up(inside);
    return arg;
}

int main(void) {
    pthread_t a = spawn(worker, NULL), b = spawn(worker, NULL);
    CHECK(wait_for(10) == 10);
    join(a);
    join(b);
    CHECK(shared == 10);
    return done();
}
