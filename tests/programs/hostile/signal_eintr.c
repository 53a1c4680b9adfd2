// Blocking calls interrupted by a handler without SA_RESTART give EINTR; with
// SA_RESTART they go on. Lock operations never give EINTR.
#include "check.h"
#include <poll.h>
#include <semaphore.h>
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t main_thread;
static int fds[2], stop, held;
static long hits;

static void on_usr1(int sig) { (void)sig; ADD(hits, 1); }

static void *pesterer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) {
        pthread_kill(main_thread, SIGUSR1);
        usleep(300);
    }
    return NULL;
}

static void *late_writer(void *arg) {
    (void)arg;
    sleep_ms(20);
    CHECK(write(fds[1], "x", 1) == 1);
    return NULL;
}

static void *holder(void *arg) {
    (void)arg;
    pthread_mutex_lock(&lock);
    STORE(held, 1);
    sleep_ms(20);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    struct sigaction sa = {0};
    struct timespec second = {5, 0};
    char c;
    sem_t sem;
    main_thread = pthread_self();
    sa.sa_handler = on_usr1;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0 && pipe(fds) == 0 && sem_init(&sem, 0, 0) == 0);
    pthread_t t = spawn(pesterer, NULL);
    CHECK(read(fds[0], &c, 1) == -1 && errno == EINTR);
    CHECK(nanosleep(&second, NULL) == -1 && errno == EINTR);
    CHECK(sem_wait(&sem) == -1 && errno == EINTR);
    CHECK(poll(NULL, 0, 5000) == -1 && errno == EINTR);
    CHECK(pause() == -1 && errno == EINTR);
    sa.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    pthread_t w = spawn(late_writer, NULL);
    CHECK(read(fds[0], &c, 1) == 1 && c == 'x');
    join(w);
    STORE(stop, 1);
    join(t);
    STORE(stop, 0);
    t = spawn(pesterer, NULL);
    w = spawn(holder, NULL);
    while (!LOAD(held)) usleep(50);
    CHECK(pthread_mutex_lock(&lock) == 0 && pthread_mutex_unlock(&lock) == 0);
    STORE(stop, 1);
    join(t);
    join(w);
    CHECK(hits > 5);
    puts("interrupted as told");
    return done();
}
