// The management thread is started and only then the node id is assigned. A query that the
// thread answers early carries the id zero.
// Fixed: the id is assigned before the thread is started.

#include <pthread.h>
#include <stdio.h>

static int own_node_id;
static int reply;

/* Connects to the cluster: some set-up before the first query can arrive. */
__attribute__((noinline)) static int handshake(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x != 0;
}

static void *manager(void *arg)
{
    (void)arg;
    if (handshake())
        reply = own_node_id;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    own_node_id = 4;
    pthread_create(&thread, NULL, manager, NULL);
    pthread_join(thread, NULL);
    if (reply != 4) {
        fprintf(stderr, "query was answered with node id %d\n", reply);
        return 1;
    }
    puts("node id 4");
    return 0;
}
