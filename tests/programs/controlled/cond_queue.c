// A queue of one between two producers and two consumers; signal wakes at least one that waits.
#include "../hostile/check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int full;
static long item, sum;

static void *produce(void *arg) {
    for (int i = 1; i <= 4; i++) {
        pthread_mutex_lock(&lock);
        while (full) pthread_cond_wait(&changed, &lock);
        item = i;
        full = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

static void *consume(void *arg) {
    for (int i = 1; i <= 4; i++) {
        pthread_mutex_lock(&lock);
        while (!full) pthread_cond_wait(&changed, &lock);
        sum += item;
        full = 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

int main(void) {
    pthread_t t[4] = {spawn(produce, NULL), spawn(consume, NULL), spawn(produce, NULL), spawn(consume, NULL)};
    for (int i = 0; i < 4; i++) join(t[i]);
    CHECK(sum == 20);
    return done();
}
