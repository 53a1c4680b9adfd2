// The executable exports functions of its own under libc names (sleep, usleep and
// sched_yield): the program's definitions win, and linking does not fail.
#include "check.h"
#include <sched.h>

static long slept, yielded;

unsigned sleep(unsigned seconds) { ADD(slept, seconds); return 0; }
int usleep(useconds_t us) { ADD(slept, us); return 0; }
int sched_yield(void) { ADD(yielded, 1); return 0; }

static void *worker(void *arg) {
    for (int i = 0; i < 100; i++) {
        sleep(1000);
        sched_yield();
    }
    return arg;
}

int main(void) {
    pthread_t a = spawn(worker, NULL), b = spawn(worker, NULL);
    join(a);
    join(b);
    CHECK(usleep(5) == 0);
    CHECK(slept == 200005 && yielded == 200);
    churn(2, 300);
    puts("own sleep");
    return done();
}
