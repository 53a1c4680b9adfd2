//@ needs: jemalloc
//@ flags: -ljemalloc
//@ hidden
// jemalloc linked as the program's allocator: threads allocate, resize and free each
// other's blocks.
#include "check.h"

int mallctl(const char *, void *, size_t *, void *, size_t);

static char *slots[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *arg) {
    unsigned seed = (unsigned)(long)arg;
    for (int i = 0; i < 2000; i++) {
        size_t n = 1 + rand_r(&seed) % 3000;
        char *mine = malloc(n);
        CHECK(mine);
        memset(mine, (int)n, n);
        pthread_mutex_lock(&lock);
        char **slot = &slots[rand_r(&seed) % 64], *theirs = *slot;
        *slot = mine;
        pthread_mutex_unlock(&lock);
        theirs = realloc(theirs, 5000);
        CHECK(theirs);
        free(theirs);
    }
    return NULL;
}

int main(void) {
    const char *version = NULL;
    size_t size = sizeof version;
    CHECK(mallctl("version", &version, &size, NULL, 0) == 0 && version);
    pthread_t t[4];
    for (long i = 0; i < 4; i++) t[i] = spawn(worker, (void *)(i + 1));
    for (int i = 0; i < 4; i++) join(t[i]);
    for (int i = 0; i < 64; i++) free(slots[i]);
    churn(2, 300);
    puts("jemalloc");
    return done();
}
