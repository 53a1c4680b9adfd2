// A function that locks calls another that takes the same lock.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int size, nested;

static __attribute__((noinline)) int length(void)
{
    pthread_mutex_lock(&lock);
    int now = size;
    pthread_mutex_unlock(&lock);
    return now;
}

static void *append(void *unused)
{
    if (!nested)
        length();
    pthread_mutex_lock(&lock);
    size = nested ? length() + 1 : size + 1;
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(int argc, char **argv)
{
    (void)argv;
    pthread_t thread;
    nested = argc < 2;
    pthread_create(&thread, NULL, append, NULL);
    append(NULL);
    pthread_join(thread, NULL);
    printf("%d\n", size);
    return 0;
}
