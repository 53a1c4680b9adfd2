//@ world
//@ flags: -lrt
// All threads wait, and a timer's signal or thread is what wakes them: no deadlock.
#include "../hostile/check.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>

static sem_t ticks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int news;

static void on_alarm(int sig) { (void)sig; sem_post(&ticks); }

static void on_timer(union sigval value) {
    (void)value;
    pthread_mutex_lock(&lock);
    news = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void *waits(void *arg) {
    while (sem_wait(&ticks) == -1) CHECK(errno == EINTR);
    return arg;
}

int main(void) {
    CHECK(sem_init(&ticks, 0, 0) == 0);
    struct sigaction sa = {0};
    sa.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    struct itimerval soon = {{0, 0}, {0, 20000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    join(spawn(waits, NULL));

    struct sigevent how = {0};
    how.sigev_notify = SIGEV_THREAD;
    how.sigev_notify_function = on_timer;
    timer_t timer;
    struct itimerspec later = {{0, 0}, {0, 20000000}};
    CHECK(timer_create(CLOCK_MONOTONIC, &how, &timer) == 0 && timer_settime(timer, 0, &later, NULL) == 0);
    pthread_mutex_lock(&lock);
    while (!news) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    CHECK(timer_delete(timer) == 0);
    return done();
}
