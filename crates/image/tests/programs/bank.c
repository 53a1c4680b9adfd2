/* Globals of many shapes, an inlined access, an unlikely part, libc calls and a tail call. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>

struct entry {
    int key;
    int count;
    union {
        long whole;
        int half[2];
    };
};

struct guarded {
    const char *label;
    pthread_mutex_t lock;
    volatile long value;
    unsigned low : 3, high : 20;
};

int balance = 100;
struct entry table[8];
struct guarded g = {"g", PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};
short grid[3][5];
char text[64];
static _Atomic int ready;

static inline __attribute__((always_inline)) void deposit(int amount) {
    balance += amount; //~ inlined
}

__attribute__((noinline)) void pay(int amount) {
    deposit(amount); //~ call
}

__attribute__((noinline)) int next(void) {
    static int calls;
    return ++calls; //~ static
}

__attribute__((noinline)) int pick(int at) {
    if (__builtin_expect(at > 7, 0)) {
        table[0].key = -1; //~ cold
        fprintf(stderr, "bad index %d\n", at);
        abort();
    }
    table[at].count += 1; //~ table
    return table[at].count;
}

__attribute__((noinline)) size_t copy(const char *from) {
    memcpy(text, from, strlen(from) + 1); //~ libc
    grid[1][2] = 7; //~ grid
    return strlen(text);
}

__attribute__((noinline, no_sanitize("thread"))) void quiet(char *to, const char *from, size_t len) {
    memcpy(to, from, len); //~ uninstrumented
}

__attribute__((noinline)) void set_value(long to) {
    g.value = to; //~ volatile
    atomic_store_explicit(&ready, 1, memory_order_release);
}

int run(int argc) {
    char to[4];
    pay(argc);
    next();
    pick(argc & 3);
    set_value(5);
    quiet(to, "abc", 4);
    table[2].whole = argc;
    g.high = 5;
    return (int)copy("hello") + (to[0] != 'a');
}

#ifndef AS_LIBRARY
int main(int argc, char **argv) {
    (void)argv;
    printf("ran %d %d\n", run(argc), balance);
    return 0;
}
#endif
