//@ world
// A program with threads forks under control: the child runs free, with clocks and locks of its own, and talks to
// its parent through a pipe and a shared semaphore.
#include "../hostile/check.h"
#include <semaphore.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long shared;

static void *worker(void *arg) {
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        shared++;
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

int main(void) {
    int fds[2];
    char c = 0;
    sem_t *sem = mmap(NULL, sizeof *sem, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(sem != MAP_FAILED && sem_init(sem, 1, 0) == 0 && pipe(fds) == 0);
    pthread_t a = spawn(worker, NULL), b = spawn(worker, NULL);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            churn(2, 20);
            usleep(100);
            CHECK(write(fds[1], "x", 1) == 1 && sem_post(sem) == 0);
            _exit(9);
        }
        CHECK(read(fds[0], &c, 1) == 1 && c == 'x');
        CHECK(sem_wait(sem) == 0);
        expect_exit(pid, 9);
    }
    join(a);
    join(b);
    CHECK(shared == 40);
    return done();
}
