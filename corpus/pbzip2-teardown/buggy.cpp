// The main thread waits until all blocks are compressed, then deletes the queue with its
// mutex. It does not wait for the consumer itself, which may still
// have to lock that mutex a last time.

#include <cstdio>
#include <pthread.h>
#include <semaphore.h>

struct Queue {
    pthread_mutex_t *mut;
    int blocks;
};

static Queue fifo;
static sem_t written;

// The output side: joins the blocks to a file; takes a while, as in the original.
__attribute__((noinline)) static unsigned finish_output()
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *consumer(void *)
{
    for (;;) {
        pthread_mutex_lock(fifo.mut); //~ guilty
        bool done = fifo.blocks == 0;
        if (!done)
            fifo.blocks--;
        pthread_mutex_unlock(fifo.mut); //~ guilty
        if (done)
            return nullptr;
        sem_post(&written);
    }
}

static void queue_delete()
{
    pthread_mutex_destroy(fifo.mut);
    delete fifo.mut;
    fifo.mut = nullptr; //~ guilty
}

int main()
{
    pthread_t thread;
    fifo.mut = new pthread_mutex_t;
    pthread_mutex_init(fifo.mut, nullptr);
    fifo.blocks = 1;
    sem_init(&written, 0, 0);
    pthread_create(&thread, nullptr, consumer, nullptr);
    sem_wait(&written);
    bool ok = finish_output() != 0;
    queue_delete();
    pthread_join(thread, nullptr);
    std::puts(ok ? "1 block written" : "nothing written");
    return 0;
}
