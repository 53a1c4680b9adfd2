//@ exit: 23
// _exit from a signal handler while threads hold locks and allocate.
#include "check.h"
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long shared;

static void on_alarm(int sig) {
    (void)sig;
    ssize_t n = write(1, "EXIT-SUCCESS\n", 13);
    _exit(n == 13 ? 23 : 99);
}

static void *hammer(void *arg) {
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&lock);
        shared++;
        free(malloc(100));
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    CHECK(signal(SIGALRM, on_alarm) == SIG_DFL);
    spawn(hammer, NULL);
    spawn(hammer, NULL);
    ualarm(20000, 0);
    hammer(NULL);
}
