//@ deadlock: every
//@ timeout: 2
// A normal mutex is taken again by its own holder.
#include "../hostile/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *arg) {
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
    return arg;
}

int main(void) {
    join(spawn(worker, NULL));
    return done();
}
