// errno survives instrumented accesses, atomics, successful locks and block
// copies, in every thread, also when a signal handler runs in between.
#include "check.h"
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static long cells[4096], hits;

static void on_usr1(int sig) {
    int saved = errno;
    (void)sig;
    ADD(hits, 1);
    errno = saved;
}

static void *worker(void *arg) {
    int mine = 1000 + (int)(long)arg;
    errno = mine;
    for (int i = 0; i < 3000; i++) {
        pthread_mutex_lock(&lock);
        cells[(i * 61) % 4096]++;
        pthread_mutex_unlock(&lock);
        pthread_rwlock_rdlock(&rw);
        long seen = cells[i];
        pthread_rwlock_unlock(&rw);
        ADD(cells[4095], seen & 1);
        if (i % 100 == 0) {
            char a[300], b[300];
            memset(a, i, sizeof a);
            memcpy(b, a, sizeof b);
            CHECK(b[299] == (char)i);
            pthread_kill(pthread_self(), SIGUSR1);
            free(malloc(300));
        }
        CHECK(errno == mine);
    }
    return NULL;
}

int main(void) {
    CHECK(signal(SIGUSR1, on_usr1) == SIG_DFL);
    for (long i = 0; i < 3; i++) {
        errno = 5;
        pthread_t t = spawn(worker, (void *)i); // alone: it reads cells without `lock`
        churn(2, 300);
        join(t);
        CHECK(errno == 5);
    }
    CHECK(hits == 90);
    puts("errno kept");
    return done();
}
