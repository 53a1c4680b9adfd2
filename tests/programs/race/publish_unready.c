// A pointer is published by a plain store; the reader may see it before its target.
#include <pthread.h>
#include <stdio.h>

struct config { int size, ready; };
static struct config storage;
static struct config *volatile current;
static int seen;

static void *publish(void *arg) {
    storage.size = 64;
    storage.ready = 1;
    current = &storage; //~ race
    return arg;
}

static void *use(void *arg) {
    struct config *c = current; //~ race
    if (c)
        seen = c->size;
    return arg;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, publish, NULL);
    pthread_create(&b, NULL, use, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("EXIT-SUCCESS");
    return seen != 0 && seen != 64;
}
