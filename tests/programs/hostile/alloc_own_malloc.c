// The executable defines malloc and its family itself (a bump allocator): libc's
// own callers use it, and nobody else's allocator gets in between.
#include "check.h"
#include <malloc.h>

enum { ARENA = 96 << 20 };
static char arena[ARENA] __attribute__((aligned(64)));
static size_t used;
static long freed;

static void *bump(size_t align, size_t n) {
    size_t at, next;
    do {
        at = LOAD(used);
        next = ((at + 16 + align - 1) & ~(align - 1)) + n;
        if (next > ARENA) return NULL;
    } while (!__atomic_compare_exchange_n(&used, &at, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    char *p = arena + next - n;
    memcpy(p - sizeof n, &n, sizeof n);
    return p;
}
void *malloc(size_t n) { return bump(16, n); }
void free(void *p) { if (p) ADD(freed, 1); }
void *calloc(size_t a, size_t b) { return bump(16, a * b); } // the arena is never reused
void *memalign(size_t align, size_t n) { return bump(align < 16 ? 16 : align, n); }
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
int posix_memalign(void **p, size_t align, size_t n) { return (*p = memalign(align, n)) ? 0 : ENOMEM; }
void *realloc(void *old, size_t n) {
    char *p = malloc(n);
    size_t had = 0;
    if (old) memcpy(&had, (char *)old - sizeof had, sizeof had);
    if (p && old) memcpy(p, old, had < n ? had : n);
    return p;
}
static int ours(const void *p) { return (const char *)p >= arena && (const char *)p < arena + ARENA; }

static void *worker(void *arg) {
    for (int i = 0; i < 200; i++) {
        char *p = malloc((size_t)i + 1);
        CHECK(ours(p));
        memset(p, i, (size_t)i + 1);
        p = realloc(p, 500);
        CHECK(ours(p) && p[i] == (char)i);
        free(p);
    }
    return arg;
}

int main(void) {
    char *copy = strdup("woven"), *line = NULL;
    CHECK(ours(copy) && asprintf(&line, "%s twice", copy) == 11 && ours(line));
    CHECK((uintptr_t)aligned_alloc(256, 512) % 256 == 0);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) t[i] = spawn(worker, NULL);
    for (int i = 0; i < 3; i++) join(t[i]);
    CHECK(freed >= 600);
    free(line);
    free(copy);
    puts("own allocator");
    return done();
}
