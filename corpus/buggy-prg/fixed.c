// Users append the number that they drew to a common history. Each locks, but each a mutex of
// his own, so the history's length is not protected at all and an entry is overwritten.
// Fixed: all users take one lock.

#include <pthread.h>
#include <stdio.h>

struct user {
    int number;
    pthread_mutex_t lock;
};

static int history[8];
static int history_len;
static pthread_mutex_t history_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static int record(int at, int number)
{
    history[at] = number;
    return at + 1;
}

static void *draw(void *arg)
{
    struct user *user = arg;
    pthread_mutex_lock(&history_lock);
    int at = history_len;
    int next = record(at, user->number);
    history_len = next;
    pthread_mutex_unlock(&history_lock);
    return NULL;
}

int main(void)
{
    struct user users[2] = {{3, PTHREAD_MUTEX_INITIALIZER}, {5, PTHREAD_MUTEX_INITIALIZER}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, draw, &users[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (history_len != 2 || history[0] + history[1] != 8) {
        fprintf(stderr, "history has %d of 2 numbers\n", history_len);
        return 1;
    }
    puts("2 numbers drawn");
    return 0;
}
