// fork while other threads take locks and allocate; every child allocates, uses
// its own mutex, makes threads of its own and ends by exit().
#include "check.h"

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
static long shared, childs_sum;
static int stop;

static void *hammer(void *arg) {
    while (!LOAD(stop)) {
        pthread_mutex_lock(&hot);
        shared++;
        pthread_mutex_unlock(&hot);
        free(malloc(1 + (size_t)arg * 37));
        usleep(20);
    }
    return NULL;
}

static void *child_thread(void *arg) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mine);
        childs_sum += (long)arg;
        pthread_mutex_unlock(&mine);
    }
    return NULL;
}

static void child(int n) {
    char *blocks[50];
    for (int i = 0; i < 50; i++) blocks[i] = memset(malloc(16 << (i % 8)), n, 16);
    for (int i = 0; i < 50; i++) {
        CHECK(blocks[i][15] == n);
        free(blocks[i]);
    }
    pthread_t a = spawn(child_thread, (void *)1), b = spawn(child_thread, (void *)2);
    join(a);
    join(b);
    CHECK(childs_sum == 600);
    exit(7);
}

int main(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) threads[i] = spawn(hammer, (void *)i);
    for (int n = 0; n < 20; n++) {
        pid_t pid = fork();
        if (pid == 0) child(n);
        expect_exit(pid, 7);
    }
    STORE(stop, 1);
    for (int i = 0; i < 3; i++) join(threads[i]);
    CHECK(shared > 0 && childs_sum == 0);
    churn(3, 500);
    puts("20 children worked");
    return done();
}
