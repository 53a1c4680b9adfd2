// Two threads wait for different events on one condition variable. The main thread signals one
// event once; if both wait already, the other thread may get the signal, find nothing and go
// back to sleep.
// Fixed: every change is broadcast.

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int opened, closed;

/* The connection is set up before anybody waits for it. */
__attribute__((noinline)) static unsigned set_up(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *wait_closed(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!closed)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *wait_opened(void *arg)
{
    (void)arg;
    if (set_up() == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    while (!opened)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void announce(int *event)
{
    pthread_mutex_lock(&lock);
    *event = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, wait_closed, NULL);
    pthread_create(&b, NULL, wait_opened, NULL);
    announce(&opened);
    pthread_join(b, NULL);
    announce(&closed);
    pthread_join(a, NULL);
    puts("opened and closed");
    return 0;
}
