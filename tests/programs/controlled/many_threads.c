//@ timeout: 60
// More threads, one after the other, than a run has seats.
#include "../hostile/check.h"

static long sum;

static void *add(void *arg) {
    ADD(sum, (long)arg);
    return NULL;
}

int main(void) {
    for (int i = 0; i < 2500; i++) {
        pthread_t a = spawn(add, (void *)1), b = spawn(add, (void *)2);
        join(a);
        join(b);
    }
    CHECK(sum == 7500);
    return done();
}
