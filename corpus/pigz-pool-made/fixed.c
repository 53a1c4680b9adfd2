// A pool of buffers counts how many it made. The function that adds a buffer reads the
// count again after it gave the lock up, to number the buffer; two buffers get one number.
// Fixed: the number is taken while the lock is held.

#include <pthread.h>
#include <stdio.h>

struct pool {
    pthread_mutex_t have;
    int made;
    int limit;
};

static struct pool pool = {PTHREAD_MUTEX_INITIALIZER, 0, 4};

__attribute__((noinline)) static int make_buffer(struct pool *p)
{
    pthread_mutex_lock(&p->have);
    p->made++;
    int number = p->made;
    pthread_mutex_unlock(&p->have);
    return number;
}

static void *compress(void *arg)
{
    *(int *)arg = make_buffer(&pool);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int first = 0, second = 0;
    pthread_create(&a, NULL, compress, &first);
    pthread_create(&b, NULL, compress, &second);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (first == second) {
        fprintf(stderr, "two buffers have the number %d\n", first);
        return 1;
    }
    printf("%d buffers made\n", pool.made);
    return 0;
}
