// Semaphores: counts are kept, time-outs are told, and a post from a handler wakes.
#include "../hostile/check.h"
#include <semaphore.h>
#include <signal.h>

static sem_t items, from_handler;
static long taken;

static void *taker(void *arg) {
    for (int i = 0; i < 3; i++) {
        CHECK(sem_wait(&items) == 0);
        ADD(taken, 1);
    }
    return arg;
}

static void *poster(void *arg) {
    for (int i = 0; i < 6; i++) CHECK(sem_post(&items) == 0);
    return arg;
}

static void on_usr1(int sig) { (void)sig; sem_post(&from_handler); }

static void *waits(void *arg) {
    while (sem_wait(&from_handler) == -1) CHECK(errno == EINTR);
    return arg;
}

int main(void) {
    struct timespec until;
    CHECK(sem_init(&items, 0, 0) == 0 && sem_init(&from_handler, 0, 0) == 0);
    until = after_ms(CLOCK_REALTIME, 20);
    CHECK(sem_timedwait(&items, &until) == -1 && errno == ETIMEDOUT);
    CHECK(now_ns(CLOCK_REALTIME) >= until.tv_sec * 1000000000LL + until.tv_nsec);
    CHECK(sem_trywait(&items) == -1 && errno == EAGAIN);
    pthread_t a = spawn(taker, NULL), b = spawn(taker, NULL), p = spawn(poster, NULL);
    join(a);
    join(b);
    join(p);
    CHECK(taken == 6 && sem_trywait(&items) == -1);
    CHECK(signal(SIGUSR1, on_usr1) != SIG_ERR);
    pthread_t w = spawn(waits, NULL);
    CHECK(pthread_kill(w, SIGUSR1) == 0);
    join(w);
    w = spawn(waits, NULL);
    CHECK(raise(SIGUSR1) == 0);
    join(w);
    return done();
}
