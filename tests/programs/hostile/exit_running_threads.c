//@ exit: 3
//@ hidden
// Returning from main while threads hammer, sleep, wait and hold locks.
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static long shared;
static int ready;

static void *hammer(void *arg) { ADD(ready, 1); for (;;) ADD(shared, (long)arg); return NULL; }
static void *sleeper(void *arg) { ADD(ready, 1); for (;;) sleep(100); return arg; }
static void *waiter(void *arg) {
    pthread_mutex_lock(&lock);
    ADD(ready, 1);
    for (;;) pthread_cond_wait(&never, &lock);
    return arg;
}
static void *allocator(void *arg) { ADD(ready, 1); for (;;) free(malloc(100)); return arg; }

int main(void) {
    spawn(hammer, (void *)1);
    spawn(hammer, (void *)2);
    spawn(sleeper, NULL);
    spawn(waiter, NULL);
    spawn(allocator, NULL);
    while (LOAD(ready) < 5) usleep(50);
    pthread_mutex_lock(&lock); // held at exit
    done();
    return 3;
}
