// 300 locks held at once by one thread, released in another order, by two threads.
#include "check.h"

enum { LOCKS = 300 };
static pthread_mutex_t locks[LOCKS];
static long data[LOCKS];

static void *worker(void *arg) {
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < LOCKS; i++) CHECK(pthread_mutex_lock(&locks[i]) == 0);
        for (int i = 0; i < LOCKS; i++) data[i]++;
        for (int i = 0; i < LOCKS; i++) {
            int k = i * 7 % LOCKS; // 7 and 300 have no common factor
            CHECK(pthread_mutex_unlock(&locks[k]) == 0);
        }
    }
    return arg;
}

int main(void) {
    for (int i = 0; i < LOCKS; i++) CHECK(pthread_mutex_init(&locks[i], NULL) == 0);
    pthread_t a = spawn(worker, NULL), b = spawn(worker, NULL);
    join(a);
    join(b);
    for (int i = 0; i < LOCKS; i++) CHECK(data[i] == 40 && pthread_mutex_destroy(&locks[i]) == 0);
    puts("300 held");
    return done();
}
