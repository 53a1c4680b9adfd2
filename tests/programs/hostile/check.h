// What every hostile program shares: a check that survives anything, thread
// shorthands, and `churn`, an exact workload of locks and atomics to run before
// and after the hostile act.
#ifndef HOSTILE_CHECK_H
#define HOSTILE_CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
#define ADD(x, v) __atomic_add_fetch(&(x), (v), __ATOMIC_ACQ_REL)

// A failed check ends the process with status 99, without running any handler.
#define CHECK(c)                                                               \
    do {                                                                       \
        if (!(c)) {                                                            \
            dprintf(2, "%s:%d: check failed: %s (errno %d)\n", __FILE__,       \
                    __LINE__, #c, errno);                                      \
            _exit(99);                                                         \
        }                                                                      \
    } while (0)

UNUSED static pthread_t spawn(void *(*body)(void *), void *arg) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, arg) == 0);
    return thread;
}

UNUSED static void *join(pthread_t thread) {
    void *result = NULL;
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

UNUSED static void sleep_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR) {
    }
}

UNUSED static long long now_ns(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

UNUSED static struct timespec after_ms(clockid_t clock, long ms) {
    long long ns = now_ns(clock) + ms * 1000000LL;
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return t;
}

// Waits for a child and checks that it ended by exiting with `code`.
UNUSED static void expect_exit(pid_t child, int code) {
    int status = 0;
    CHECK(child > 0);
    while (waitpid(child, &status, 0) == -1) CHECK(errno == EINTR);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
}

struct churn {
    pthread_mutex_t lock;
    long guarded, atomic;
    int rounds;
};

UNUSED static void *churn_worker(void *arg) {
    struct churn *c = (struct churn *)arg;
    for (int i = 0; i < c->rounds; i++) {
        pthread_mutex_lock(&c->lock);
        c->guarded++;
        pthread_mutex_unlock(&c->lock);
        ADD(c->atomic, 1);
    }
    return NULL;
}

// `threads` threads (at most 16) add up one guarded and one atomic counter.
UNUSED static void churn(int threads, int rounds) {
    struct churn c = {PTHREAD_MUTEX_INITIALIZER, 0, 0, rounds};
    pthread_t ids[16];
    CHECK(threads <= 16);
    for (int i = 0; i < threads; i++) ids[i] = spawn(churn_worker, &c);
    for (int i = 0; i < threads; i++) join(ids[i]);
    CHECK(c.guarded == (long)threads * rounds);
    CHECK(LOAD(c.atomic) == (long)threads * rounds);
}

// The last line of a program that ends normally.
UNUSED static int done(void) {
    puts("EXIT-SUCCESS");
    fflush(stdout);
    return 0;
}
#endif
