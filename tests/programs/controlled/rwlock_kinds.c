// Reader-writer locks of both kinds: readers share, writers do not, and nobody waits for ever.
#include "../hostile/check.h"

static pthread_rwlock_t readers_first = PTHREAD_RWLOCK_INITIALIZER,
    writers_first = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static long value[2];

static void *reader(void *arg) {
    pthread_rwlock_t *rw = arg;
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_rwlock_rdlock(rw) == 0);
        CHECK(value[0] == value[1]);
        CHECK(pthread_rwlock_unlock(rw) == 0);
    }
    return NULL;
}

static void *writer(void *arg) {
    pthread_rwlock_t *rw = arg;
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_rwlock_wrlock(rw) == 0);
        value[0]++;
        value[1]++;
        CHECK(pthread_rwlock_unlock(rw) == 0);
    }
    return NULL;
}

int main(void) {
    pthread_rwlock_t *both[] = {&readers_first, &writers_first};
    for (int i = 0; i < 2; i++) {
        pthread_t t[4] = {spawn(reader, both[i]), spawn(writer, both[i]), spawn(reader, both[i]), spawn(writer, both[i])};
        for (int n = 0; n < 4; n++) join(t[n]);
        CHECK(pthread_rwlock_rdlock(both[i]) == 0 && pthread_rwlock_tryrdlock(both[i]) == 0);
        CHECK(pthread_rwlock_trywrlock(both[i]) == EBUSY);
        CHECK(pthread_rwlock_unlock(both[i]) == 0 && pthread_rwlock_unlock(both[i]) == 0);
    }
    CHECK(value[0] == 16 && value[1] == 16);
    return done();
}
