// Preloaded into a program, makes one of its threads late, and so brings about an order of events that the
// program seldom shows by itself. LATE_THREAD is the thread's number, counted from 1 in the order of creation; 0 is
// for whoever creates threads, who is late after each. With LATE_LOCK set, the thread is late not when it
// starts but when it takes its first mutex.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const useconds_t late_us = 100 * 1000;

typedef void *(*body_t)(void *);
typedef int (*create_t)(pthread_t *, const pthread_attr_t *, body_t, void *);
typedef int (*lock_t)(pthread_mutex_t *);

struct start {
    body_t body;
    void *arg;
};

static __thread int late_at_lock;

static void *start_late(void *arg) {
    struct start start = *(struct start *)arg;
    free(arg);
    if (getenv("LATE_LOCK") != NULL)
        late_at_lock = 1;
    else
        usleep(late_us);
    return start.body(start.arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, body_t body, void *arg) {
    static int made;
    create_t create = (create_t)dlsym(RTLD_NEXT, "pthread_create");
    const char *late = getenv("LATE_THREAD");
    int late_thread = late == NULL ? -1 : atoi(late);
    int number = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    if (late_thread == number) {
        struct start *start = malloc(sizeof *start);
        *start = (struct start){body, arg};
        return create(thread, attr, start_late, start);
    }
    int error = create(thread, attr, body, arg);
    if (late_thread == 0)
        usleep(late_us);
    return error;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static lock_t lock;
    if (lock == NULL)
        lock = (lock_t)dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (late_at_lock) {
        late_at_lock = 0;
        usleep(late_us);
    }
    return lock(mutex);
}
