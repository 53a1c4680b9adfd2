// A pool is pushed to a lock-free list by compare-and-swap, and success is decided by reading
// the node's next field a second time. As soon as the swap is done another thread may pop the
// node and push it again with another next: the first thread then believes that it failed and
// pushes the same node twice.
// Fixed: the old head is kept in a local variable and the field is never read again.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct node {
    _Atomic(struct node *) next;
    atomic_int pushes;
};

static struct node pool_a, pool_b;
static _Atomic(struct node *) recycled_pools;

__attribute__((noinline)) static struct node *swap_head(struct node *expected, struct node *fresh)
{
    struct node *seen = expected;
    atomic_compare_exchange_strong(&recycled_pools, &seen, fresh);
    return seen;
}

__attribute__((noinline)) static void set_idle(struct node *node)
{
    for (;;) {
        atomic_fetch_add(&node->pushes, 1);
        struct node *head = atomic_load(&recycled_pools);
        atomic_store(&node->next, head);
        struct node *seen = swap_head(head, node);
        if (seen == head)
            return;
    }
}

static struct node *pop(void)
{
    struct node *head = atomic_load(&recycled_pools);
    while (head && !atomic_compare_exchange_strong(&recycled_pools, &head, atomic_load(&head->next)))
        ;
    return head;
}

static void *worker(void *arg)
{
    set_idle(arg);
    return NULL;
}

/* The listener takes an idle pool, returns a spare one and then gives the first back. */
static void *listener(void *arg)
{
    struct node *mine = pop();
    set_idle(arg);
    if (mine)
        set_idle(mine);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, worker, &pool_a);
    pthread_create(&b, NULL, listener, &pool_b);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    struct node *first = atomic_load(&recycled_pools);
    struct node *second = first ? atomic_load(&first->next) : NULL;
    if (!second || second == first || atomic_load(&second->next) != NULL) {
        fprintf(stderr, "recycled pools are no list of two: a node was pushed twice\n");
        return 1;
    }
    puts("2 pools recycled");
    return 0;
}
