// A check and an act that another thread may come between: the critical pair of a lost update.
#include <assert.h>
#include <pthread.h>

static int balance;

static void *deposit(void *unused)
{
    int seen = balance;
    balance = seen + 1;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, deposit, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert(balance == 2);
    return 0;
}
