// A thread ends with a lock that it never gave back.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;
static int entries;

static void *fill(void *careful)
{
    pthread_mutex_lock(&cache);
    if (entries++ == 0 || careful)
        pthread_mutex_unlock(&cache);
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argv;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, fill, argc > 1 ? &entries : NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", entries);
    return 0;
}
