//@ flags: -Wl,--gc-sections
// Functions and variables keep one address whichever body of a function runs: pointers to functions that are static, global, weak,
// in constant tables, in themselves; statics of one name in several functions; addresses of labels; thread-local ones.
#include "check.h"
#include <pthread.h>
#include <stddef.h>

typedef long (*Step)(long);
typedef const void *(*Self)(const void *);

static long hits[4];
static _Thread_local long mine;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char unique_key, other_key;

static long first(long x) { static long calls; calls += x; return __atomic_add_fetch(&hits[0], calls, __ATOMIC_RELAXED); }
static long second(long x) { static long calls; calls -= x; return __atomic_add_fetch(&hits[1], calls, __ATOMIC_RELAXED); }
__attribute__((weak)) long third(long x) { hits[2] += x; return x; }
long fourth(long x) { hits[3] += x; return x; }
long never_called(long x) { return x + hits[0]; }

static const Step constant_table[] = {first, second, third, fourth};
static Step changing_table[] = {first, second, third, fourth};
Step seen_by_all[] = {fourth, third, second, first};

// Only ever passed around by itself.
static const void *itself(const void *other) {
    if (other == NULL) return itself((const void *)itself);
    hits[2]++;
    return other == (const void *)itself ? other : NULL;
}

__attribute__((noinline)) static Step pick(int i) {
    switch (i) {
    case 0: return first;
    case 1: return second;
    case 2: return third;
    default: return fourth;
    }
}

// A small machine: the labels' addresses must be of the body that runs.
__attribute__((noinline)) static long interpret(const unsigned char *code) {
    static const void *const labels[] = {&&add, &&twice, &&stop};
    static void *changing[3];
    long value = 0;
    changing[1] = &&twice;
    goto *labels[*code];
add:
    value += 1;
    goto *labels[*++code];
twice:
    value *= 2;
    hits[3]++;
    ++code;
    goto *(*code == 1 ? changing[1] : (void *)labels[*code]);
stop:
    return value;
}

__attribute__((noinline)) static const char *key(int i) { return i ? &unique_key : &other_key; }

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        int at = i & 3;
        pthread_mutex_lock(&lock);
        CHECK(constant_table[at] == changing_table[at] && pick(at) == constant_table[at]);
        CHECK(seen_by_all[3 - at] == changing_table[at]);
        changing_table[at](1);
        constant_table[at](2);
        pthread_mutex_unlock(&lock);
        mine += at;
    }
    CHECK(mine == 3000);
    pthread_mutex_lock(&lock);
    CHECK(itself(NULL) == (const void *)itself);
    static const unsigned char code[] = {0, 1, 1, 0, 2};
    CHECK(interpret(code) == 5);
    pthread_mutex_unlock(&lock);
    CHECK(key(1) == &unique_key && key(0) == &other_key && key(0) != key(1));
    return (void *)work;
}

int main(void) {
    pthread_t threads[4];
    void *back;
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], &back) == 0);
        CHECK(back == (void *)work);
    }
    CHECK(mine == 0 && hits[2] == 4 * 500 * 3 + 4 && hits[3] == 4 * 500 * 3 + 4 * 2);
    puts("EXIT-SUCCESS");
    return 0;
}
