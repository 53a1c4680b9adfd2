// Threads that are stopped in the middle of accesses to shared data: by a jump out of a handler,
// by asynchronous cancellation, by an exit from a handler, and by a fork around them.
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static long cells[64];
static int stop, jumped, ready;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t may_jump;

static void on_jump(int signal) {
    (void)signal;
    cells[1]++;
    if (may_jump) siglongjmp(back, 1);
}

static void on_leave(int signal) {
    (void)signal;
    cells[2]++;
    pthread_exit((void *)5);
}

__attribute__((noinline)) static void deep(int depth) {
    if (depth > 0) deep(depth - 1);
    for (int i = 3; i < 40; i++) cells[i] += depth;
}

static void *jumper(void *arg) {
    STORE(ready, 1);
    while (!LOAD(stop)) {
        if (sigsetjmp(back, 1) == 0) {
            may_jump = 1;
            for (int i = 0; i < 20; i++) deep(i % 7);
        } else {
            ADD(jumped, 1);
        }
        may_jump = 0;
    }
    deep(9);
    return arg;
}

static void *worker(void *arg) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    ADD(ready, 1);
    for (;;) cells[50 + (long)arg]++;
    return NULL;
}

static void *leaver(void *arg) {
    ADD(ready, 1);
    for (;;) cells[60]++;
    return arg;
}

static void *busy(void *arg) {
    ADD(ready, 1);
    while (!LOAD(stop)) cells[61]++;
    return arg;
}

static void settle(int count) {
    while (LOAD(ready) < count) sleep_ms(1);
    STORE(ready, 0);
}

int main(void) {
    signal(SIGUSR1, on_jump);
    signal(SIGUSR2, on_leave);

    pthread_t thread = spawn(jumper, NULL);
    settle(1);
    for (int i = 0; i < 100; i++) {
        pthread_kill(thread, SIGUSR1);
        deep(3);
        usleep(200);
    }
    while (LOAD(jumped) == 0) {
        pthread_kill(thread, SIGUSR1);
        usleep(200);
    }
    STORE(stop, 1);
    join(thread);
    puts("jumped");

    pthread_t workers[4];
    for (long i = 0; i < 4; i++) workers[i] = spawn(worker, (void *)i);
    settle(4);
    for (int i = 0; i < 4; i++) {
        sleep_ms(2);
        CHECK(pthread_cancel(workers[i]) == 0);
        CHECK(join(workers[i]) == PTHREAD_CANCELED);
    }
    puts("cancelled");

    thread = spawn(leaver, NULL);
    settle(1);
    sleep_ms(2);
    pthread_kill(thread, SIGUSR2);
    CHECK(join(thread) == (void *)5);
    puts("left");

    STORE(stop, 0);
    thread = spawn(busy, NULL);
    settle(1);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            deep(4);
            cells[61]++;
            _exit(7);
        }
        expect_exit(pid, 7);
    }
    STORE(stop, 1);
    join(thread);
    puts("forked");
    churn(3, 200);
    return done();
}
