// A bounded queue with two condition variables, two producers and a consumer; the end is broadcast, and
// one wait has a deadline that passes.

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { ROOM = 3, ITEMS = 40 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static int slots[ROOM], head, count;
static int producers = 2;
static long sum;

static void put(int item)
{
    pthread_mutex_lock(&lock);
    while (count == ROOM)
        pthread_cond_wait(&not_full, &lock);
    slots[(head + count) % ROOM] = item;
    count++;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

static int take(int *item)
{
    pthread_mutex_lock(&lock);
    while (count == 0 && producers > 0)
        pthread_cond_wait(&not_empty, &lock);
    int got = count > 0;
    if (got) {
        *item = slots[head];
        head = (head + 1) % ROOM;
        count--;
        pthread_cond_signal(&not_full);
    }
    pthread_mutex_unlock(&lock);
    return got;
}

static void *producer(void *arg)
{
    (void)arg;
    for (int i = 1; i <= ITEMS; i++)
        put(i);
    pthread_mutex_lock(&lock);
    producers--;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *consumer(void *arg)
{
    (void)arg;
    int item;
    while (take(&item))
        sum += item;
    return NULL;
}

static int wait_in_vain(void)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    pthread_mutex_lock(&lock);
    int result = 0;
    while (count == 0 && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&not_empty, &lock, &deadline);
    pthread_mutex_unlock(&lock);
    return result;
}

int main(void)
{
    pthread_t p1, p2, c;
    pthread_create(&c, NULL, consumer, NULL);
    pthread_create(&p1, NULL, producer, NULL);
    pthread_create(&p2, NULL, producer, NULL);
    pthread_join(p1, NULL);
    pthread_join(p2, NULL);
    pthread_join(c, NULL);
    int ok = sum == ITEMS * (ITEMS + 1) && wait_in_vain() == ETIMEDOUT;
    pthread_cond_destroy(&not_empty);
    pthread_cond_destroy(&not_full);
    puts(ok ? "every item arrived once" : "items were lost");
    return ok ? 0 : 1;
}
