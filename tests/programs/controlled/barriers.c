// A barrier that is used again and again, destroyed and made anew: one serial thread each time.
#include "../hostile/check.h"

static pthread_barrier_t barrier;
static long serial, phase[3];

static void *worker(void *arg) {
    long me = (long)arg;
    for (int round = 1; round <= 4; round++) {
        STORE(phase[me], round);
        int result = pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        if (result) ADD(serial, 1);
        for (int i = 0; i < 3; i++) CHECK(LOAD(phase[i]) >= round);
    }
    return NULL;
}

int main(void) {
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 3; i++) phase[i] = 0;
        CHECK(pthread_barrier_init(&barrier, NULL, 3) == 0);
        pthread_t t[3];
        for (long i = 0; i < 3; i++) t[i] = spawn(worker, (void *)i);
        for (int i = 0; i < 3; i++) join(t[i]);
        CHECK(pthread_barrier_destroy(&barrier) == 0);
    }
    CHECK(serial == 8);
    return done();
}
