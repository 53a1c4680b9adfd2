//@ deadlock: some
//@ timeout: 5
// Only one of two posts, where the flag was seen too early.
#include "../hostile/check.h"
#include <semaphore.h>

static sem_t sem;
static int early;

static void *poster(void *arg) {
    sem_post(&sem);
    if (!LOAD(early)) sem_post(&sem);
    return arg;
}

int main(void) {
    CHECK(sem_init(&sem, 0, 0) == 0);
    pthread_t t = spawn(poster, NULL);
    STORE(early, 1);
    CHECK(sem_wait(&sem) == 0 && sem_wait(&sem) == 0);
    join(t);
    return done();
}
