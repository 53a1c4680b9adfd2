// Each of three threads takes the fork on its left and then the one on its right. When all hold
// their left fork, nobody ever gets a right one. No two of the threads alone can deadlock.

#include <pthread.h>
#include <stdio.h>

enum { SEATS = 3 };

static pthread_mutex_t forks[SEATS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int meals[SEATS];

static void *philosopher(void *arg)
{
    int seat = *(int *)arg;
    int left = seat, right = (seat + 1) % SEATS;
    pthread_mutex_lock(&forks[left]); //~ guilty
    pthread_mutex_lock(&forks[right]); //~ guilty
    meals[seat]++;
    pthread_mutex_unlock(&forks[right]);
    pthread_mutex_unlock(&forks[left]);
    return NULL;
}

int main(void)
{
    pthread_t threads[SEATS];
    int seats[SEATS] = {0, 1, 2};
    for (int i = 0; i < SEATS; i++)
        pthread_create(&threads[i], NULL, philosopher, &seats[i]);
    for (int i = 0; i < SEATS; i++)
        pthread_join(threads[i], NULL);
    printf("%d meals\n", meals[0] + meals[1] + meals[2]);
    return 0;
}
