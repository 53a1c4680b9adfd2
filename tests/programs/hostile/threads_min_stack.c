// Threads on the smallest legal stack (PTHREAD_STACK_MIN, 16 KiB), and on a stack
// of the program's own with a canary under it, doing locks, accesses and a signal.
#include "check.h"
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long shared, hits;

static void on_usr1(int sig) { (void)sig; ADD(hits, 1); }

static void *body(void *arg) {
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&lock);
        shared++;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&lock);
    }
    pthread_kill(pthread_self(), SIGUSR1);
    return arg;
}

int main(void) {
    enum { STACK = 16 * 1024, GAP = 4096 };
    pthread_attr_t attr;
    pthread_t t[4];
    CHECK(signal(SIGUSR1, on_usr1) == SIG_DFL);
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, STACK) == 0);
    for (int round = 0; round < 5; round++) {
        for (long i = 0; i < 4; i++) CHECK(pthread_create(&t[i], &attr, body, (void *)i) == 0);
        for (long i = 0; i < 4; i++) CHECK(join(t[i]) == (void *)i);
    }
    unsigned char *own = mmap(NULL, GAP + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED && pthread_attr_setstack(&attr, own + GAP, STACK) == 0);
    memset(own, 0xA5, GAP);
    for (int round = 0; round < 5; round++) {
        CHECK(pthread_create(&t[0], &attr, body, NULL) == 0);
        join(t[0]);
    }
    for (int i = 0; i < GAP; i++) CHECK(own[i] == 0xA5);
    CHECK(shared == 25 * 500 && hits == 25);
    puts("small stacks held");
    return done();
}
