// A counter behind a lock, in a library without instrumentation.
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long count;

void count_up(void (*inside)(void)) {
    pthread_mutex_lock(&lock);
    long now = count;
    inside();
    count = now + 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

long wait_for(long least) {
    pthread_mutex_lock(&lock);
    while (count < least) pthread_cond_wait(&changed, &lock);
    long now = count;
    pthread_mutex_unlock(&lock);
    return now;
}
