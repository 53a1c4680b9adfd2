// Four threads wait for four kinds of things that the main thread has, and the main thread for them.
//
// With a control file as argument (struct control) that says so, nothing is ever given: the
// process has to be killed, and every thread is where its name says.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct control {
    uint64_t pid;
    uint64_t stay;
    uint64_t waiting;
};

static struct control own;
static struct control *control = &own;

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
static int is_signalled;
static sem_t tokens;

static void enter(const char *name) {
    pthread_setname_np(pthread_self(), name);
    __atomic_add_fetch(&control->waiting, 1, __ATOMIC_SEQ_CST);
}

static void *wants_lock(void *arg) {
    enter("wants-lock");
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    return arg;
}

static void *wants_write(void *arg) {
    enter("wants-write");
    pthread_rwlock_wrlock(&readers);
    pthread_rwlock_unlock(&readers);
    return arg;
}

static void *wants_signal(void *arg) {
    enter("wants-signal");
    pthread_mutex_lock(&mutex);
    while (!is_signalled)
        pthread_cond_wait(&signalled, &mutex);
    pthread_mutex_unlock(&mutex);
    return arg;
}

static void *wants_token(void *arg) {
    enter("wants-token");
    while (sem_wait(&tokens) != 0) {
    }
    return arg;
}

static void take_control(const char *path) {
    int fd = open(path, O_RDWR);
    void *at = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    close(fd);
    control = at;
    control->pid = (uint64_t)getpid();
}

static void give_everything(void) {
    pthread_mutex_unlock(&held);
    pthread_rwlock_unlock(&readers);
    pthread_mutex_lock(&mutex);
    is_signalled = 1;
    pthread_cond_signal(&signalled);
    pthread_mutex_unlock(&mutex);
    sem_post(&tokens);
}

int main(int argc, char **argv) {
    if (argc > 1)
        take_control(argv[1]);
    void *(*bodies[])(void *) = {wants_lock, wants_write, wants_signal, wants_token};
    pthread_t threads[4];
    sem_init(&tokens, 0, 0);
    pthread_mutex_lock(&held);
    pthread_rwlock_rdlock(&readers);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, bodies[i], NULL);
    if (!control->stay)
        give_everything();
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("EXIT-SUCCESS\n");
    return 0;
}
