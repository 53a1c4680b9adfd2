// The main loop cancels a connection whose last transfer is older than its timeout. The set-up
// thread stores that time only after it reported the connection as established, so the main
// loop can read the old time and cancel a good connection.
// Fixed: the time is stored before the connection is reported.

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

struct connection {
    int last_transfer;
    int state;
};

enum { NOW = 100, TIMEOUT = 30 };

static struct connection conn;
static sem_t established;

/* The main loop draws the progress bar before it looks after its connections. */
__attribute__((noinline)) static unsigned draw_progress(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *setup_thread(void *arg)
{
    (void)arg;
    conn.state = 1;
    conn.last_transfer = NOW;
    sem_post(&established);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int cancelled = 0;
    sem_init(&established, 0, 0);
    pthread_create(&thread, NULL, setup_thread, NULL);
    sem_wait(&established);
    if (draw_progress() && conn.last_transfer + TIMEOUT < NOW)
        cancelled = 1;
    pthread_join(thread, NULL);
    if (cancelled) {
        fprintf(stderr, "a live connection was cancelled\n");
        return 1;
    }
    puts("download goes on");
    return 0;
}
