// A new context sees that the runtime is up and uses its atom table. The thread that destroys
// the last context finds no other one, marks the runtime as landing and frees the table; the
// state that the first thread tested is stale before the table is used.
// Fixed: test, registration and use of the table hold the runtime's lock.

#include <pthread.h>
#include <stdio.h>

enum state { DOWN, UP, LANDING };

struct runtime {
    enum state state;
    int contexts;
    int *atoms;
    pthread_mutex_t lock;
};

static int atom_table[4] = {11, 12, 13, 14};
static struct runtime runtime = {UP, 1, atom_table, PTHREAD_MUTEX_INITIALIZER};
static int used;

static void *new_context(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&runtime.lock);
    enum state seen = runtime.state;
    runtime.contexts++;
    if (seen == UP)
        used = runtime.atoms[2];
    pthread_mutex_unlock(&runtime.lock);
    return NULL;
}

static void *destroy_context(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&runtime.lock);
    if (--runtime.contexts == 0) {
        runtime.state = LANDING;
        runtime.atoms = NULL;
    }
    pthread_mutex_unlock(&runtime.lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, new_context, NULL);
    pthread_create(&b, NULL, destroy_context, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts(used == 13 ? "atoms were used" : "runtime was down");
    return 0;
}
