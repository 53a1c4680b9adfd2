//@ plain: lib_spin.c
//@ hidden
//@ timeout: 40
// A loop in a library that was built without instrumentation waits for a flag: somebody must notice.
#include "../hostile/check.h"

int spin_until(volatile int *flag);
static volatile int flag;

static void *setter(void *arg) {
    usleep(1000);
    flag = 1;
    return arg;
}

int main(void) {
    pthread_t t = spawn(setter, NULL);
    CHECK(spin_until(&flag) == 1);
    join(t);
    return done();
}
