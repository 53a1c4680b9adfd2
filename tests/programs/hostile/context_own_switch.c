// A hand-written stack switch in assembly, as fiber libraries have: no libc call
// tells anyone that the stack changed.
#include "check.h"

__asm__(".text\n.globl fiber_switch\n.type fiber_switch,@function\nfiber_switch:\n"
        " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size fiber_switch,.-fiber_switch\n");
void fiber_switch(void **save, void *load);

struct fiber { void *sp, *home; long count; char stack[64 * 1024] __attribute__((aligned(64))); };
static __thread struct fiber *current;
static long shared;

__attribute__((noinline)) static void yield_deep(struct fiber *f, int depth) {
    if (depth > 0) yield_deep(f, depth - 1);
    else fiber_switch(&f->sp, f->home);
    f->count++;
    ADD(shared, 1);
}

static void fiber_main(void) {
    struct fiber *f = current;
    for (int i = 0;; i++) yield_deep(f, i % 3);
}

static void *runner(void *arg) {
    (void)arg;
    struct fiber *f = aligned_alloc(64, sizeof *f);
    CHECK(f);
    void **sp = (void **)(f->stack + sizeof f->stack) - 2;
    *sp = (void *)fiber_main;
    sp[1] = NULL;
    f->sp = sp - 6;
    f->count = 0;
    current = f;
    for (int i = 0; i < 3001; i++) fiber_switch(&f->home, f->sp);
    CHECK(f->count == 6000);
    free(f);
    return NULL;
}

int main(void) {
    pthread_t a = spawn(runner, NULL), b = spawn(runner, NULL);
    join(a);
    join(b);
    CHECK(shared == 12000);
    puts("switched by hand");
    return done();
}
