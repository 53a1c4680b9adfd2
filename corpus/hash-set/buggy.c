// Adding to the set asks whether the element is there and then inserts it, each under the set's
// lock. Two threads ask before either inserts. There is no data race.

#include <pthread.h>
#include <stdio.h>

static int bucket[4];
static int size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static int contains(int element)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    int count = size; //~ guilty
    for (int i = 0; i < count; i++)
        found |= bucket[i] == element;
    pthread_mutex_unlock(&lock);
    return found;
}

__attribute__((noinline)) static void insert(int element)
{
    pthread_mutex_lock(&lock);
    bucket[size] = element;
    size++; //~ guilty
    pthread_mutex_unlock(&lock);
}

static void *add(void *arg)
{
    int element = *(int *)arg;
    if (!contains(element)) {
        insert(element);
    }
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    int element = 9;
    pthread_create(&a, NULL, add, &element);
    pthread_create(&b, NULL, add, &element);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (size != 1) {
        fprintf(stderr, "set holds %d copies of one element\n", size);
        return 1;
    }
    puts("1 element in the set");
    return 0;
}
