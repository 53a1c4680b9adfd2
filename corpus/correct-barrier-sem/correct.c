// Barriers separate the phases of a computation, semaphores pass a token around a ring.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 3, PHASES = 5, LAPS = 6 };

static pthread_barrier_t barrier;
static sem_t turn[THREADS];
static int cells[2][THREADS];
static int serial_threads;
static int token;

/* Phase p reads what all threads wrote in phase p - 1: only the barrier orders it. */
static void relax(int me)
{
    for (int phase = 1; phase <= PHASES; phase++) {
        int sum = 0;
        for (int i = 0; i < THREADS; i++)
            sum += cells[(phase - 1) % 2][i];
        cells[phase % 2][me] = sum % 7 + 1;
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&serial_threads, 1, __ATOMIC_RELAXED);
    }
}

/* The token is a plain variable: the semaphores hand it over. */
static void pass(int me)
{
    for (int lap = 0; lap < LAPS; lap++) {
        sem_wait(&turn[me]);
        token++;
        sem_post(&turn[(me + 1) % THREADS]);
    }
}

static void *worker(void *arg)
{
    int me = *(int *)arg;
    relax(me);
    pass(me);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int ids[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        sem_init(&turn[i], 0, i == 0);
        cells[0][i] = i + 1;
    }
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        pthread_create(&threads[i], NULL, worker, &ids[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int value = -1;
    sem_getvalue(&turn[0], &value);
    int ok = value == 1 && sem_trywait(&turn[0]) == 0 && sem_trywait(&turn[0]) == -1 && errno == EAGAIN;
    ok = ok && sem_timedwait(&turn[0], &now) == -1 && errno == ETIMEDOUT;
    ok = ok && token == THREADS * LAPS && serial_threads == PHASES;
    for (int i = 1; i < THREADS; i++)
        ok = ok && cells[PHASES % 2][i] == cells[PHASES % 2][0];
    for (int i = 0; i < THREADS; i++)
        sem_destroy(&turn[i]);
    pthread_barrier_destroy(&barrier);
    puts(ok ? "phases and laps in step" : "out of step");
    return ok ? 0 : 1;
}
