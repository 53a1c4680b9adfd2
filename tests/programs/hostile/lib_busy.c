// Companion library: its constructor starts a thread, its destructor stops it.
#include <pthread.h>
#include <unistd.h>

static pthread_t thread;
static int stop;
static long beats;

static void *beat(void *arg) {
    (void)arg;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        __atomic_add_fetch(&beats, 1, __ATOMIC_ACQ_REL);
        usleep(50);
    }
    return NULL;
}

long busy_beats(void) { return __atomic_load_n(&beats, __ATOMIC_ACQUIRE); }

__attribute__((constructor)) static void start(void) { pthread_create(&thread, NULL, beat, NULL); }
__attribute__((destructor)) static void end(void) {
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}
