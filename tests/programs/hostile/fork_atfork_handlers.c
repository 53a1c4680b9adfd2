// pthread_atfork handlers that touch instrumented data and hold a lock over fork.
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char order[64];
static int stop;
static long shared;

static void mark(char c) { order[strlen(order)] = c; }
static void before1(void) { pthread_mutex_lock(&lock); mark('a'); }
static void parent1(void) { mark('b'); pthread_mutex_unlock(&lock); }
static void child1(void) { mark('c'); pthread_mutex_unlock(&lock); }
static void before2(void) { mark('x'); }
static void parent2(void) { mark('y'); }
static void child2(void) { mark('z'); }

static void *hammer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) {
        pthread_mutex_lock(&lock);
        shared++;
        pthread_mutex_unlock(&lock);
        usleep(50);
    }
    return NULL;
}

int main(void) {
    CHECK(pthread_atfork(before1, parent1, child1) == 0);
    CHECK(pthread_atfork(before2, parent2, child2) == 0);
    pthread_t t = spawn(hammer, NULL);
    for (int i = 0; i < 10; i++) {
        memset(order, 0, sizeof order);
        pid_t pid = fork();
        if (pid == 0) {
            pthread_mutex_lock(&lock); // free: child1 released it
            // Prepare handlers run last-registered first, the others first first.
            CHECK(strcmp(order, "xacz") == 0);
            pthread_mutex_unlock(&lock);
            _exit(3);
        }
        CHECK(strcmp(order, "xaby") == 0);
        expect_exit(pid, 3);
    }
    STORE(stop, 1);
    join(t);
    puts("atfork order kept");
    return done();
}
