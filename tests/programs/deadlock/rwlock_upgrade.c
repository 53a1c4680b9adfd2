//@ deadlock: some
//@ timeout: 5
// Two readers that both want to write; each waits for the other to stop reading.
#include "../hostile/check.h"

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int readers;

static void *upgrade(void *arg) {
    pthread_rwlock_rdlock(&rw);
    if (ADD(readers, 1) == 2) pthread_rwlock_wrlock(&rw); // the other one is still reading
    ADD(readers, -1);
    pthread_rwlock_unlock(&rw);
    return arg;
}

int main(void) {
    pthread_t a = spawn(upgrade, NULL), b = spawn(upgrade, NULL);
    join(a);
    join(b);
    return done();
}
