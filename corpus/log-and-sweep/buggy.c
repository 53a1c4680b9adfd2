// The sweeper copies the log out and then sets its length to zero, each under the lock but
// not in one section. An entry written between the two is thrown away unseen.

#include <pthread.h>
#include <stdio.h>

enum { ROOM = 16 };

static int log_entries[ROOM];
static int log_len;
static int swept[ROOM];
static int swept_len;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void log_write(int entry)
{
    pthread_mutex_lock(&lock);
    log_entries[log_len] = entry;
    log_len++; //~ guilty
    pthread_mutex_unlock(&lock);
}

static void sweep(void)
{
    pthread_mutex_lock(&lock);
    int count = log_len; //~ guilty
    for (int i = 0; i < count; i++)
        swept[swept_len++] = log_entries[i];
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    log_len = 0; //~ guilty
    pthread_mutex_unlock(&lock);
}

static void *writer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        log_write(i);
    return NULL;
}

static void *sweeper(void *arg)
{
    (void)arg;
    sweep();
    return NULL;
}

int main(void)
{
    pthread_t w, s;
    pthread_create(&w, NULL, writer, NULL);
    pthread_create(&s, NULL, sweeper, NULL);
    pthread_join(w, NULL);
    pthread_join(s, NULL);
    sweep();
    if (swept_len != 3) {
        fprintf(stderr, "log lost entries: %d of 3 swept\n", swept_len);
        return 1;
    }
    puts("3 entries swept");
    return 0;
}
