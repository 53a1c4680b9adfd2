// The futex call itself: wait, wake, time-outs, bit sets and requeue.
#include "../hostile/check.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static int word, other, woken;

static long futex(int *at, int op, int value, const void *four, int *five, int six) {
    return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, four, five, six);
}

static void *waits(void *arg) {
    while (LOAD(word) == 0) {
        long result = futex(&word, FUTEX_WAIT, 0, NULL, NULL, 0);
        CHECK(result == 0 || errno == EAGAIN || errno == EINTR);
    }
    ADD(woken, 1);
    return arg;
}

static void *waits_once(void *arg) {
    int bits = (int)(long)arg;
    futex(&other, FUTEX_WAIT_BITSET, 0, NULL, NULL, bits);
    ADD(woken, 1);
    return NULL;
}

int main(void) {
    struct timespec brief = {0, 5000000};
    CHECK(futex(&word, FUTEX_WAIT, 1, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(futex(&word, FUTEX_WAIT, 0, &brief, NULL, 0) == -1 && errno == ETIMEDOUT);
    pthread_t a = spawn(waits, NULL), b = spawn(waits, NULL);
    usleep(100);
    STORE(word, 1);
    futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0);
    futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0);
    join(a);
    join(b);
    CHECK(woken == 2);
    a = spawn(waits_once, (void *)1);
    b = spawn(waits_once, (void *)2);
    while (LOAD(woken) < 3) {
        CHECK(futex(&other, FUTEX_WAKE_BITSET, 9, NULL, NULL, 2) <= 1);
        usleep(50);
    }
    join(b);
    CHECK(LOAD(woken) == 3);
    // Moved to the first word, and woken there.
    while (LOAD(woken) < 4) {
        STORE(word, 0);
        futex(&other, FUTEX_CMP_REQUEUE, 0, (void *)9, &word, 0);
        futex(&word, FUTEX_WAKE, 9, NULL, NULL, 0);
        usleep(50);
    }
    join(a);
    return done();
}
