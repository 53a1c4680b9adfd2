//@ hidden
// A stream's own lock is held across points: others wait for it inside the C library.
#include "../hostile/check.h"

static long shared;

static void *writer(void *arg) {
    flockfile(stderr);
    for (int i = 0; i < 3; i++) ADD(shared, 1);
    fputs("", stderr);
    funlockfile(stderr);
    return arg;
}

int main(void) {
    pthread_t a = spawn(writer, NULL), b = spawn(writer, NULL);
    join(a);
    join(b);
    CHECK(shared == 6);
    return done();
}
