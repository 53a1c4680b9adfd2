// RLIMIT_AS a moderate 96 MiB above what is mapped: malloc fails at the limit with
// ENOMEM, is freed, and threads with small stacks go on working.
#include "check.h"
#include <sys/resource.h>

static long shared;

static void *worker(void *arg) {
    (void)arg;
    for (int i = 0; i < 500; i++) ADD(shared, 1);
    return NULL;
}

int main(void) {
    char *blocks[200];
    long pages = 0;
    int n = 0;
    churn(2, 300);
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm && fscanf(statm, "%ld", &pages) == 1);
    fclose(statm);
    struct rlimit limit;
    limit.rlim_cur = limit.rlim_max = (rlim_t)pages * 4096 + (96UL << 20);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    while (n < 200 && (blocks[n] = malloc(1 << 20))) blocks[n++][0] = 1;
    CHECK(n >= 16 && n < 200 && errno == ENOMEM);
    for (int i = 0; i < n; i++) free(blocks[i]);
    pthread_attr_t attr;
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 64 * 1024) == 0);
    for (int round = 0; round < 20; round++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], &attr, worker, NULL) == 0);
        for (int i = 0; i < 4; i++) join(t[i]);
    }
    CHECK(shared == 20 * 4 * 500);
    puts("little memory");
    return done();
}
