// main leaves by pthread_exit while threads go on; the process ends with status 0
// when the last of them does, and atexit handlers run then.
#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t main_thread;
static long shared;

static void at_exit(void) {
    CHECK(shared == 2000);
    puts("atexit");
    done();
}

static void *worker(void *arg) {
    if (arg) CHECK(pthread_join(main_thread, NULL) == 0);
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        shared++;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    main_thread = pthread_self();
    CHECK(atexit(at_exit) == 0);
    CHECK(pthread_detach(spawn(worker, NULL)) == 0);
    CHECK(pthread_detach(spawn(worker, (void *)1)) == 0);
    puts("main leaves");
    fflush(stdout);
    pthread_exit((void *)55);
}
