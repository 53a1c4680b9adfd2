// Opening a session starts the peer manager, whose timer thread allocates bandwidth, and only
// then creates the bandwidth object. The timer usually fires much later.

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct bandwidth {
    int magic;
    int allocated;
};

struct session {
    struct bandwidth *bandwidth;
    pthread_t peer_manager;
};

static struct session session;

/* First period of the timer: the peers are sorted once. */
__attribute__((noinline)) static unsigned sort_peers(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *peer_timer(void *arg)
{
    struct session *s = arg;
    if (sort_peers()) {
        struct bandwidth *b = s->bandwidth; //~ guilty
        assert(b && b->magic == 43143);
        b->allocated = 1;
    }
    return NULL;
}

static void open_session(struct session *s)
{
    struct bandwidth *b = malloc(sizeof *b);
    if (!b)
        exit(2);
    b->magic = 43143;
    pthread_create(&s->peer_manager, NULL, peer_timer, s);
    s->bandwidth = b; //~ guilty
}

int main(void)
{
    open_session(&session);
    pthread_join(session.peer_manager, NULL);
    puts("bandwidth allocated");
    free(session.bandwidth);
    return 0;
}
