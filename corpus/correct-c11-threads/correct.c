// The C11 threads library: thrd, mtx of all kinds, cnd with and without a deadline, tss with a destructor,
// call_once and thread-local storage.

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

enum { ROUNDS = 30 };

static mtx_t plain, nested;
static cnd_t turn_changed;
static tss_t slot;
static once_flag once = ONCE_FLAG_INIT;
static int turn, total, depth_sum, inits;
static atomic_int freed;
static thread_local int own;

static void free_slot(void *value)
{
    free(value);
    atomic_fetch_add(&freed, 1);
}

static void init(void)
{
    inits++;
    tss_create(&slot, free_slot);
}

static int worker(void *arg)
{
    int me = *(int *)arg;
    call_once(&once, init);
    tss_set(slot, malloc(8));
    for (int i = 0; i < ROUNDS; i++) {
        mtx_lock(&plain);
        while (turn != me)
            cnd_wait(&turn_changed, &plain);
        total++;
        turn = 1 - me;
        cnd_broadcast(&turn_changed);
        mtx_unlock(&plain);
        mtx_lock(&nested);
        while (mtx_trylock(&nested) != thrd_success)
            thrd_yield();
        depth_sum += 2;
        mtx_unlock(&nested);
        mtx_unlock(&nested);
        own++;
    }
    return own;
}

int main(void)
{
    thrd_t threads[2];
    int ids[2] = {0, 1}, results[2] = {0, 0};
    mtx_init(&plain, mtx_timed);
    mtx_init(&nested, mtx_plain | mtx_recursive);
    cnd_init(&turn_changed);
    for (int i = 0; i < 2; i++)
        thrd_create(&threads[i], worker, &ids[i]);
    for (int i = 0; i < 2; i++)
        thrd_join(threads[i], &results[i]);

    struct timespec now;
    timespec_get(&now, TIME_UTC);
    mtx_lock(&plain);
    int late = cnd_timedwait(&turn_changed, &plain, &now);
    mtx_unlock(&plain);
    int ok = total == 2 * ROUNDS && depth_sum == 4 * ROUNDS && results[0] == ROUNDS && results[1] == ROUNDS &&
             inits == 1 && freed == 2 && own == 0 && late == thrd_timedout;
    cnd_destroy(&turn_changed);
    mtx_destroy(&nested);
    mtx_destroy(&plain);
    puts(ok ? "threads took turns" : "threads fell out");
    return ok ? 0 : 1;
}
