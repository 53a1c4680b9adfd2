// Handlers that lock-free code, waits and sleeps are interrupted by: what waits goes on waiting, what is
// interrupted says so.
#include "../hostile/check.h"
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static long hits;

static void on_usr1(int sig) { (void)sig; ADD(hits, 1); }

static void *at_barrier(void *arg) {
    int result = pthread_barrier_wait(&barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    CHECK(LOAD(hits) >= 1);
    return arg;
}

static void *at_lock(void *arg) {
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0);
    return arg;
}

int main(void) {
    struct sigaction sa = {0};
    sa.sa_handler = on_usr1;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0 && pthread_barrier_init(&barrier, NULL, 2) == 0);
    pthread_t t = spawn(at_barrier, NULL);
    CHECK(pthread_kill(t, SIGUSR1) == 0);
    while (LOAD(hits) < 1) usleep(10);
    int result = pthread_barrier_wait(&barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    join(t);
    pthread_mutex_lock(&lock);
    t = spawn(at_lock, NULL);
    CHECK(pthread_kill(t, SIGUSR1) == 0);
    while (LOAD(hits) < 2) usleep(10);
    pthread_mutex_unlock(&lock);
    join(t);
    return done();
}
