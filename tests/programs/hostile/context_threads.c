// Contexts that migrate: two threads take the same coroutines from a locked queue
// and run each a step at a time, so a stack started by one goes on in the other.
#include "check.h"
#include <ucontext.h>

enum { COROUTINES = 8, STEPS = 200 };
struct coroutine {
    ucontext_t ctx, *resumer;
    int step, finished;
    struct coroutine *next;
};
static struct coroutine all[COROUTINES], *queue;
static char stacks[COROUTINES][64 * 1024] __attribute__((aligned(64)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static int left = COROUTINES;

static void body(int index) {
    struct coroutine *me = &all[index];
    for (int i = 0; i < STEPS; i++) {
        me->step++;
        ADD(total, 1);
        CHECK(swapcontext(&me->ctx, me->resumer) == 0);
    }
    me->finished = 1;
    setcontext(me->resumer);
}

static void *runner(void *arg) {
    (void)arg;
    ucontext_t home;
    while (LOAD(left) > 0) {
        pthread_mutex_lock(&lock);
        struct coroutine *c = queue;
        if (c) queue = c->next;
        pthread_mutex_unlock(&lock);
        if (!c) {
            sched_yield();
            continue;
        }
        c->resumer = &home;
        CHECK(swapcontext(&home, &c->ctx) == 0);
        pthread_mutex_lock(&lock);
        if (c->finished) ADD(left, -1);
        else { c->next = queue; queue = c; }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    for (int i = 0; i < COROUTINES; i++) {
        CHECK(getcontext(&all[i].ctx) == 0);
        all[i].ctx.uc_stack.ss_sp = stacks[i];
        all[i].ctx.uc_stack.ss_size = sizeof stacks[i];
        makecontext(&all[i].ctx, (void (*)(void))body, 1, i);
        all[i].next = queue;
        queue = &all[i];
    }
    pthread_t a = spawn(runner, NULL), b = spawn(runner, NULL);
    join(a);
    join(b);
    CHECK(total == (long)COROUTINES * STEPS);
    puts("coroutines migrated");
    return done();
}
