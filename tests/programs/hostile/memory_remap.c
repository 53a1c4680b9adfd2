// Memory that comes and goes: mmap, mremap, MAP_FIXED over live pages, munmap and
// reuse of the address by another thread, file mappings that shrink away.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { SIZE = 64 * 1024 };

static void *churner(void *arg) {
    for (int i = 0; i < 100; i++) {
        char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED);
        for (int k = 0; k < SIZE; k += 512) p[k] = (char)k, p[k + 1] = (char)i;
        p = mremap(p, SIZE, 4 * SIZE, MREMAP_MAYMOVE);
        CHECK(p != MAP_FAILED && p[SIZE - 511] == (char)i && p[3 * SIZE] == 0);
        CHECK(mmap(p + SIZE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + SIZE);
        CHECK(p[0] == 0 && p[1] == (char)i && p[SIZE] == 0);
        CHECK(madvise(p, SIZE, MADV_DONTNEED) == 0 && p[1] == 0);
        CHECK(munmap(p, 4 * SIZE) == 0);
    }
    return arg;
}

int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) t[i] = spawn(churner, NULL);
    int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    long *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED);
    for (int i = 0; i < 1000; i++) ADD(shared[i], i);
    CHECK(ftruncate(fd, 4096) == 0);
    long first = 0;
    CHECK(pread(fd, &first, 8, 99 * 8) == 8 && first == 99 && shared[511] == 511);
    CHECK(munmap(shared, SIZE) == 0);
    for (int i = 0; i < 3; i++) join(t[i]);
    puts("remapped");
    return done();
}
