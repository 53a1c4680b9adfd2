// Blocks of all sizes that have a form of their own in a trace are handed over and copied, each in a burst.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BURST = 40 };
static const size_t sizes[] = {1, 8, 4095, 4096, 65535, 65536};
enum { SIZES = sizeof sizes / sizeof *sizes };
static char from[65536], to[65536];

static void *copy(void *arg) {
    for (int i = 0; i < SIZES; i++)
        for (int n = 0; n < BURST; n++) memcpy(to, from, sizes[i]);
    return arg;
}

int main(void) {
    pthread_t t;
    memset(from, 7, sizeof from);
    memset(to, 0, sizeof to);
    pthread_create(&t, NULL, copy, NULL);
    pthread_join(t, NULL);
    int same = memcmp(from, to, sizeof to) == 0;
    memset(from, 0, sizeof from);
    puts(same ? "EXIT-SUCCESS" : "different");
    return !same;
}
