// The race hides behind an unrelated critical section that usually orders it: a
// run in which the writer locks first looks synchronised.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int shared; // not static: else a compiler may see that it never is 7
static int other;

static void *writer(void *arg) {
    shared = 1; //~ race
    pthread_mutex_lock(&lock);
    other++;
    pthread_mutex_unlock(&lock);
    return arg;
}

static void *reader(void *arg) {
    usleep(2000);
    pthread_mutex_lock(&lock);
    other++;
    pthread_mutex_unlock(&lock);
    int got = shared; //~ race
    return got == 7 ? arg : NULL;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, writer, NULL);
    pthread_create(&b, NULL, reader, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("EXIT-SUCCESS");
    return other != 2;
}
