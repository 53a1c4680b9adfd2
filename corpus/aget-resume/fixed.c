// A download thread writes to the file and then adds to the byte counter. The handler for an
// interrupt saves the counter as the place to resume from without taking the lock, between
// the two, so a resumed download does not fit the file.
// Fixed: the handler takes the lock that covers both.

#include <pthread.h>
#include <stdio.h>

enum { CHUNK = 8 };

static long file_bytes;
static long bwritten;
static long saved_counter, saved_size;
static pthread_mutex_t bwritten_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void write_chunk(void)
{
    file_bytes += CHUNK;
}

static void *download(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&bwritten_mutex);
        write_chunk();
        bwritten += CHUNK;
        pthread_mutex_unlock(&bwritten_mutex);
    }
    return NULL;
}

static void *interrupt(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&bwritten_mutex);
    saved_counter = bwritten;
    saved_size = file_bytes;
    pthread_mutex_unlock(&bwritten_mutex);
    return NULL;
}

int main(void)
{
    pthread_t worker, handler;
    pthread_create(&worker, NULL, download, NULL);
    pthread_create(&handler, NULL, interrupt, NULL);
    pthread_join(worker, NULL);
    pthread_join(handler, NULL);
    if (saved_counter != saved_size) {
        fprintf(stderr, "resume log says %ld bytes, file has %ld\n", saved_counter, saved_size);
        return 1;
    }
    puts("resume log fits the file");
    return 0;
}
