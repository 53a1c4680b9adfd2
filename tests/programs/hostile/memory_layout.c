// Packed, unaligned and volatile accesses, bit-fields, accesses that cross cache
// lines and pages, flexible arrays: values as written, neighbours untouched.
#include "check.h"
#include <sys/mman.h>

struct __attribute__((packed)) packed { char c; short s; int i; long l; double d; long double x; char end; };
struct bits { unsigned a : 3, b : 5, c : 9; long d : 40; signed e : 4; volatile unsigned f : 7; };

static struct packed shared_packed;
static struct bits shared_bits;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *arg) {
    long me = (long)arg;
    for (int n = 0; n < 500; n++) {
        pthread_mutex_lock(&lock);
        shared_packed.l++;
        shared_packed.s++;
        if (me) shared_bits.c++;
        else shared_bits.d++;
        shared_bits.e = -3;
        shared_bits.f = 77;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    pthread_t a = spawn(worker, (void *)0), b = spawn(worker, (void *)1);
    join(a);
    join(b);
    CHECK(shared_packed.l == 1000 && shared_packed.s == 1000 && shared_packed.end == 0 && shared_packed.i == 0);
    CHECK(shared_bits.c == 500 % 512 && shared_bits.d == 500 && shared_bits.e == -3 && shared_bits.f == 77);
    CHECK(shared_bits.a == 0 && shared_bits.b == 0);
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 2 * 4096, 4096) == 0);
    for (int at = 4096 - 40; at < 4096 + 40; at++) {
        memset(pages, 0, 8192);
        struct packed *p = (struct packed *)(pages + at);
        p->s = -2, p->i = at, p->l = -at, p->d = at / 3.0, p->x = at;
        CHECK(p->s == -2 && p->i == at && p->l == -at && p->d == at / 3.0 && p->x == at);
        CHECK(pages[at - 1] == 0 && p->c == 0 && p->end == 0);
    }
    // The last bytes before unmapped memory.
    struct packed *last = (struct packed *)(pages + 8192 - sizeof *last);
    last->end = 5;
    volatile long *edge = (volatile long *)(pages + 8192 - sizeof(long));
    *edge = 0x1122334455667788L;
    CHECK(last->end == 0x11);
    CHECK(munmap(pages, 8192) == 0);
    puts("layouts");
    return done();
}
