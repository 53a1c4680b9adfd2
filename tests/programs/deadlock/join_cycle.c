//@ deadlock: every
//@ timeout: 2
// Three threads that wait for each other's end.
#include "../hostile/check.h"

static pthread_t thread[3];
static int ready;

static void *joiner(void *arg) {
    ADD(ready, 1);
    while (LOAD(ready) < 4) usleep(10);
    pthread_join(thread[((long)arg + 1) % 3], NULL);
    return NULL;
}

int main(void) {
    for (long i = 0; i < 3; i++) thread[i] = spawn(joiner, (void *)i);
    ADD(ready, 1);
    for (;;) pthread_join(thread[0], NULL);
}
