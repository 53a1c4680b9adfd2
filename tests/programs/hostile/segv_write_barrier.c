// A garbage collector's write barrier: pages are made read-only, the SIGSEGV
// handler marks the page dirty, opens it and returns; four threads write.
#include "check.h"
#include <signal.h>
#include <sys/mman.h>

enum { PAGES = 64, SIZE = 4096 };
static char *heap;
static int dirty[PAGES];
static long faults;

static void on_segv(int sig, siginfo_t *info, void *context) {
    int saved = errno;
    (void)sig, (void)context;
    size_t page = (size_t)((char *)info->si_addr - heap) / SIZE;
    if (page >= PAGES) _exit(97);
    STORE(dirty[page], 1);
    ADD(faults, 1);
    if (mprotect(heap + page * SIZE, SIZE, PROT_READ | PROT_WRITE) != 0) _exit(96);
    errno = saved;
}

static void *mutator(void *arg) {
    for (long page = (long)arg; page < PAGES; page += 4)
        for (int i = 0; i < 100; i++) *(volatile long *)(heap + page * SIZE + i * 8) += page;
    return NULL;
}

int main(void) {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = on_segv;
    sa.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSEGV, &sa, NULL) == 0);
    heap = mmap(NULL, PAGES * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(heap != MAP_FAILED);
    for (int cycle = 1; cycle <= 10; cycle++) {
        CHECK(mprotect(heap, PAGES * SIZE, PROT_READ) == 0);
        memset(dirty, 0, sizeof dirty);
        pthread_t t[4];
        for (long i = 0; i < 4; i++) t[i] = spawn(mutator, (void *)i);
        for (int i = 0; i < 4; i++) join(t[i]);
        for (long p = 0; p < PAGES; p++) CHECK(dirty[p] && *(long *)(heap + p * SIZE + 99 * 8) == p * cycle);
    }
    CHECK(faults == 10 * PAGES);
    puts("640 faults repaired");
    return done();
}
