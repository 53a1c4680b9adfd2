// Appending links the new node behind the last one and makes it the last. Two threads that link
// behind the same node leave one of the new nodes outside the list.

#include <pthread.h>
#include <stdio.h>

struct node {
    int value;
    struct node *next;
};

static struct node first = {0, NULL};
static struct node *last = &first;
static int size;

__attribute__((noinline)) static void link_node(struct node *before, struct node *node)
{
    before->next = node; //~ guilty
    __atomic_fetch_add(&size, 1, __ATOMIC_RELAXED);
}

static void *append(void *arg)
{
    struct node *before = last; //~ guilty
    link_node(before, arg);
    last = arg; //~ guilty
    return NULL;
}

int main(void)
{
    struct node a = {1, NULL}, b = {2, NULL};
    pthread_t t1, t2;
    pthread_create(&t1, NULL, append, &a);
    pthread_create(&t2, NULL, append, &b);
    pthread_join(t1, NULL);
    pthread_join(t2, NULL);
    int count = 0;
    for (struct node *n = first.next; n; n = n->next)
        count++;
    if (count != size) {
        fprintf(stderr, "list holds %d of %d nodes\n", count, size);
        return 1;
    }
    puts("2 nodes appended");
    return 0;
}
