// Stopping a worker tests that it has a connection and then sets the connection's stop flag.
// The worker drops its connection when a page is done, without any lock.
// Fixed: both sides take the worker's lock.

#include <pthread.h>
#include <stdio.h>

struct connection {
    int stop;
};

struct worker {
    struct connection *connection;
    int pages;
};

static struct connection http;
static struct worker worker = {&http, 0};
static char message[32];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void note(int event)
{
    snprintf(message, sizeof message, "event %d", event);
}

static void *finish(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    if (worker.connection) {
        note(2);
        worker.connection->stop = 1;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *crawl(void *arg)
{
    (void)arg;
    worker.pages++;
    pthread_mutex_lock(&lock);
    worker.connection = NULL;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    note(1);
    pthread_create(&a, NULL, crawl, NULL);
    pthread_create(&b, NULL, finish, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d page crawled\n", worker.pages);
    return 0;
}
