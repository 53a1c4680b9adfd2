// Every shape of flow that C has: switches, computed jumps, loops, early returns, recursion, calls through pointers and
// out of the C library.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared[8];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int choose(int what, int x) {
    switch (what) {
    case 0: return x + 1;
    case 1: x *= 3; break;
    case 2: x -= 7; /* fall through */
    case 3: x ^= 21; break;
    case 4: for (int i = 0; i < x % 5; i++) x += shared[i]; break;
    case 5: if (x & 1) return -x; x /= 2; break;
    case 6: while (x > 10) { x -= 3; if (x == 17) break; if (x % 4 == 0) continue; x--; } break;
    case 7: do { x += 2; } while (x % 9); break;
    default: x = 42;
    }
    return x & 1023;
}

static int interpret(const char *program) {
    static void *const labels[] = {&&add, &&twice, &&skip, &&stop};
    int value = 1;
    const char *at = program;
    goto *labels[*at++ - 'a'];
add:
    value += 3;
    goto *labels[*at++ - 'a'];
twice:
    value *= 2;
    if (value > 1000) value = 1;
    goto *labels[*at++ - 'a'];
skip:
    if (*at) at++;
    goto *labels[*at++ - 'a'];
stop:
    return value;
}

static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static int odd(int n);
static int even(int n) { return n == 0 ? 1 : odd(n - 1); }
static int odd(int n) { return n == 0 ? 0 : even(n - 1); }

static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    if (x < y) return -1;
    return x > y;
}

static int (*const table[])(int) = {fib, even, odd};

static int search(const int *list, int count, int key) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (list[middle] == key) return middle;
        if (list[middle] < key) low = middle + 1;
        else high = middle;
    }
    return -1;
}

static void *work(void *argument) {
    int seed = (int)(long)argument;
    int list[16];
    long sum = 0;
    for (int round = 0; round < 6; round++) {
        for (int what = 0; what < 9; what++) {
            int result = choose(what, seed * 7 + round * 13 + what);
            pthread_mutex_lock(&lock);
            shared[(what + round) & 7] += result;
            pthread_mutex_unlock(&lock);
            sum += result;
        }
        for (int i = 0; i < 16; i++) list[i] = (i * 37 + seed * 11 + round) % 101;
        qsort(list, 16, sizeof list[0], compare);
        sum += search(list, 16, list[round]) + search(list, 16, 1000);
        sum += table[round % 3](round + 3) + interpret(round & 1 ? "abcabbd" : "bad");
    }
    return (void *)sum;
}

int main(void) {
    pthread_t threads[3];
    long total = 0;
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 3; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        total += (long)sum;
    }
    printf("%s\n", total ? "done" : "nothing");
    return 0;
}
