// Loops that wait by looking: an atomic flag with and without sched_yield, a volatile one, one that also writes,
// and a lock of the program's own.
#include "../hostile/check.h"
#include <sched.h>

static int atomic_flag_, yield_flag, ticket, serving;
static volatile int plain_flag, tries;
static long counted;

static void *setter(void *arg) {
    plain_flag = 1;
    STORE(atomic_flag_, 1);
    STORE(yield_flag, 1);
    return arg;
}

static void *locker(void *arg) {
    for (int i = 0; i < 5; i++) {
        int mine = ADD(ticket, 1) - 1;
        while (LOAD(serving) != mine) {
        }
        counted++;
        ADD(serving, 1);
    }
    return arg;
}

int main(void) {
    pthread_t s = spawn(setter, NULL);
    while (!LOAD(yield_flag)) sched_yield();
    join(s);
    plain_flag = atomic_flag_ = 0;
    s = spawn(setter, NULL);
    while (!LOAD(atomic_flag_)) {
    }
    join(s);
    plain_flag = 0;
    s = spawn(setter, NULL);
    while (!plain_flag) {
    }
    join(s);
    plain_flag = 0;
    s = spawn(setter, NULL);
    while (!plain_flag) tries++;
    join(s);
    pthread_t a = spawn(locker, NULL), b = spawn(locker, NULL);
    join(a);
    join(b);
    CHECK(counted == 10);
    return done();
}
