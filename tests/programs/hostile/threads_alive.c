//@ timeout: 40
// 2,000 threads alive at once with 64 KiB stacks, as far as the machine allows:
// EAGAIN ends the creation, never the program.
#include "check.h"

enum { WANTED = 2000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static int open_gate;
static long alive, passed;

static void *body(void *arg) {
    ADD(alive, 1);
    pthread_mutex_lock(&lock);
    while (!open_gate) pthread_cond_wait(&opened, &lock);
    passed++;
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    static pthread_t t[WANTED];
    pthread_attr_t attr;
    int made = 0, error = 0;
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 64 * 1024) == 0);
    while (made < WANTED && (error = pthread_create(&t[made], &attr, body, NULL)) == 0) made++;
    CHECK(made == WANTED || error == EAGAIN);
    while (LOAD(alive) < made) usleep(100);
    pthread_mutex_lock(&lock);
    open_gate = 1;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < made; i++) join(t[i]);
    CHECK(passed == made && made > 50);
    puts("all passed the gate");
    return done();
}
