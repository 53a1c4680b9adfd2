//@ world
// Handlers that calls go on after: whoever waited when one ran goes on waiting, and wakes when it is time. Others have
// begun to wait since.
#include "../hostile/check.h"
#include <semaphore.h>
#include <signal.h>

static int channel[2];
static sem_t tokens, pokes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long hits, poked;

static void on_usr1(int sig) { (void)sig; ADD(hits, 1); }

static void *at_pipe(void *arg) {
    char c = 0;
    CHECK(read(channel[0], &c, 1) == 1 && c == 'x');
    return arg;
}

static void *at_semaphore(void *arg) {
    CHECK(sem_wait(&tokens) == 0);
    return arg;
}

static void *at_lock(void *arg) {
    CHECK(pthread_mutex_lock(&lock) == 0 && pthread_mutex_unlock(&lock) == 0);
    return arg;
}

static void *bystander(void *arg) {
    for (int i = 0; i < 9; i++) {
        CHECK(sem_wait(&pokes) == 0);
        ADD(poked, 1);
    }
    return arg;
}

static pthread_t interrupted(void *(*waits)(void *)) {
    long before = LOAD(hits);
    pthread_t t = spawn(waits, NULL);
    for (int i = 1; i <= 3; i++) {
        CHECK(sem_post(&pokes) == 0);
        while (LOAD(poked) < before + i) usleep(10);
        for (int j = 0; j < 3; j++) usleep(10);
        CHECK(pthread_kill(t, SIGUSR1) == 0);
        while (LOAD(hits) < before + i) usleep(10);
    }
    return t;
}

int main(void) {
    CHECK(signal(SIGUSR1, on_usr1) != SIG_ERR); // as the C library has it: calls go on
    CHECK(pipe(channel) == 0 && sem_init(&tokens, 0, 0) == 0 && sem_init(&pokes, 0, 0) == 0);
    pthread_t other = spawn(bystander, NULL);
    pthread_t t = interrupted(at_pipe);
    CHECK(write(channel[1], "x", 1) == 1);
    join(t);
    t = interrupted(at_semaphore);
    CHECK(sem_post(&tokens) == 0);
    join(t);
    CHECK(pthread_mutex_lock(&lock) == 0);
    t = interrupted(at_lock);
    CHECK(pthread_mutex_unlock(&lock) == 0);
    join(t);
    join(other);
    return done();
}
