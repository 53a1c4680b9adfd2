// C11 <threads.h>: thrd, mtx, cnd, tss and call_once.
#include "check.h"
#include <threads.h>

static mtx_t lock, recursive;
static cnd_t turned;
static once_flag once = ONCE_FLAG_INIT;
static tss_t key;
static int inits, turn;
static long shared, destroyed;

static void init(void) { inits++; }
static void destroy(void *value) { ADD(destroyed, (long)value); }

static int body(void *arg) {
    int me = (int)(long)arg;
    call_once(&once, init);
    CHECK(tss_set(key, (void *)(long)(me + 1)) == thrd_success);
    for (int i = 0; i < 200; i++) {
        CHECK(mtx_lock(&lock) == thrd_success);
        while (turn != me) CHECK(cnd_wait(&turned, &lock) == thrd_success);
        shared++;
        turn = !me;
        CHECK(cnd_broadcast(&turned) == thrd_success && mtx_unlock(&lock) == thrd_success);
    }
    CHECK(mtx_lock(&recursive) == thrd_success && mtx_lock(&recursive) == thrd_success);
    CHECK(mtx_unlock(&recursive) == thrd_success && mtx_unlock(&recursive) == thrd_success);
    if (me) thrd_exit(77);
    return 66;
}

int main(void) {
    thrd_t a, b;
    int ra, rb;
    CHECK(mtx_init(&lock, mtx_timed) == thrd_success && mtx_init(&recursive, mtx_plain | mtx_recursive) == thrd_success);
    CHECK(cnd_init(&turned) == thrd_success && tss_create(&key, destroy) == thrd_success);
    CHECK(thrd_create(&a, body, (void *)0) == thrd_success && thrd_create(&b, body, (void *)1) == thrd_success);
    CHECK(thrd_join(a, &ra) == thrd_success && thrd_join(b, &rb) == thrd_success);
    CHECK(ra == 66 && rb == 77 && shared == 400 && inits == 1 && destroyed == 3);
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    CHECK(mtx_lock(&lock) == thrd_success && cnd_timedwait(&turned, &lock, &soon) == thrd_timedout);
    CHECK(mtx_unlock(&lock) == thrd_success && mtx_trylock(&lock) == thrd_success);
    puts("C11 threads");
    return done();
}
