//@ deadlock: some
//@ timeout: 5
// The flag is looked at before the lock is taken: the signal may come in between.
#include "../hostile/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int flag;

static void *teller(void *arg) {
    STORE(flag, 1);
    pthread_mutex_lock(&lock);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t t = spawn(teller, NULL);
    if (!LOAD(flag)) {
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    join(t);
    return done();
}
