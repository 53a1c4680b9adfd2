// The slave says that it has stopped and then still takes its run lock once more. Shutdown
// waits only for the word and frees the master info.

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

struct master_info {
    pthread_mutex_t run_lock;
    int position;
};

static struct master_info *active_mi;
static sem_t stopped;
static int flushed;

/* Closes the tables and the relay log before the replication state may go. */
__attribute__((noinline)) static unsigned close_tables(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *handle_slave_io(void *arg)
{
    (void)arg;
    active_mi->position = 107;
    sem_post(&stopped);
    pthread_mutex_lock(&active_mi->run_lock); //~ guilty
    flushed = active_mi->position; //~ guilty
    pthread_mutex_unlock(&active_mi->run_lock); //~ guilty
    return NULL;
}

static void end_slave(void)
{
    sem_wait(&stopped);
    if (close_tables()) {
        struct master_info *mi = active_mi;
        active_mi = NULL; //~ guilty
        pthread_mutex_destroy(&mi->run_lock);
        free(mi);
    }
}

int main(void)
{
    pthread_t slave;
    active_mi = calloc(1, sizeof *active_mi);
    if (!active_mi)
        return 2;
    pthread_mutex_init(&active_mi->run_lock, NULL);
    sem_init(&stopped, 0, 0);
    pthread_create(&slave, NULL, handle_slave_io, NULL);
    end_slave();
    pthread_join(slave, NULL);
    printf("position %d saved\n", flushed);
    return 0;
}
