// A process-shared mutex, condition and semaphore in MAP_SHARED memory between a
// parent and its forked child: a ping-pong of 200 rounds.
#include "check.h"
#include <semaphore.h>
#include <sys/mman.h>

struct table {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    sem_t ready;
    int turn;
    long balls;
};

static void play(struct table *t, int me) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&t->lock);
        while (t->turn != me) pthread_cond_wait(&t->turned, &t->lock);
        t->balls++;
        t->turn = !me;
        pthread_cond_broadcast(&t->turned);
        pthread_mutex_unlock(&t->lock);
    }
}

int main(void) {
    struct table *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(t != MAP_FAILED);
    pthread_mutexattr_t ma;
    pthread_condattr_t ca;
    CHECK(pthread_mutexattr_init(&ma) == 0 && pthread_condattr_init(&ca) == 0);
    CHECK(pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&t->lock, &ma) == 0 && pthread_cond_init(&t->turned, &ca) == 0);
    CHECK(sem_init(&t->ready, 1, 0) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        sem_post(&t->ready);
        play(t, 1);
        _exit(0);
    }
    CHECK(sem_wait(&t->ready) == 0);
    play(t, 0);
    expect_exit(pid, 0);
    CHECK(t->balls == 400);
    CHECK(pthread_cond_destroy(&t->turned) == 0 && pthread_mutex_destroy(&t->lock) == 0);
    puts("400 balls");
    return done();
}
