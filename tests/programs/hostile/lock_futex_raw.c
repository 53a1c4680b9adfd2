// A lock and an event made with the futex system call, as runtimes have their own;
// results and errno of the raw call are the kernel's.
#include "check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static int lock, event;
static long guarded;

static long futex(int *word, int op, int value, const struct timespec *timeout) {
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static void acquire(void) {
    int seen = 0;
    if (__atomic_compare_exchange_n(&lock, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    while (__atomic_exchange_n(&lock, 2, __ATOMIC_ACQUIRE) != 0) futex(&lock, FUTEX_WAIT, 2, NULL);
}

static void release(void) {
    if (__atomic_exchange_n(&lock, 0, __ATOMIC_RELEASE) == 2) futex(&lock, FUTEX_WAKE, 1, NULL);
}

static void *worker(void *arg) {
    while (!LOAD(event)) futex(&event, FUTEX_WAIT, 0, NULL);
    for (int i = 0; i < 1000; i++) {
        acquire();
        guarded++;
        release();
    }
    return arg;
}

int main(void) {
    pthread_t t[4];
    struct timespec brief = {0, 2000000};
    int word = 5;
    for (int i = 0; i < 4; i++) t[i] = spawn(worker, NULL);
    sleep_ms(3);
    STORE(event, 1);
    CHECK(futex(&event, FUTEX_WAKE, 1000, NULL) >= 0);
    for (int i = 0; i < 4; i++) join(t[i]);
    CHECK(guarded == 4000);
    CHECK(futex(&word, FUTEX_WAIT, 4, NULL) == -1 && errno == EAGAIN);
    CHECK(futex(&word, FUTEX_WAIT, 5, &brief) == -1 && errno == ETIMEDOUT);
    CHECK(futex(&word, FUTEX_WAKE, 1, NULL) == 0);
    CHECK(syscall(SYS_gettid) == getpid() && syscall(100000) == -1 && errno == ENOSYS);
    puts("raw futex");
    return done();
}
