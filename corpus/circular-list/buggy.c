// Each thread takes the head of a queue and appends it to the tail. Both steps hold the
// lock, but not together, so two threads can append in another order than they removed.
// There is no data race here at all.

#include <pthread.h>
#include <stdio.h>

enum { COUNT = 6, ROOM = 32, ROUNDS = 2 };

static int items[ROOM];
static int head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int take(void)
{
    pthread_mutex_lock(&lock);
    int item = items[head++]; //~ guilty
    pthread_mutex_unlock(&lock);
    return item;
}

static void append(int item)
{
    pthread_mutex_lock(&lock);
    items[tail++] = item; //~ guilty
    pthread_mutex_unlock(&lock);
}

static void *rotate(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int item = take();
        append(item);
    }
    return NULL;
}

int main(void)
{
    for (int i = 0; i < COUNT; i++)
        items[tail++] = i;
    pthread_t a, b;
    pthread_create(&a, NULL, rotate, NULL);
    pthread_create(&b, NULL, rotate, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    for (int i = 1; i < COUNT; i++) {
        if (items[head + i] != (items[head] + i) % COUNT) {
            fprintf(stderr, "list is no rotation: %d after %d\n", items[head + i], items[head + i - 1]);
            return 1;
        }
    }
    puts("rotated");
    return 0;
}
