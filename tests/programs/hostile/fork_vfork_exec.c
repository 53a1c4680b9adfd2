// vfork + exec, and vfork + _exit, while other threads run.
#include "check.h"

static int stop;
static long shared;

static void *hammer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) ADD(shared, 1);
    return NULL;
}

int main(void) {
    pthread_t t = spawn(hammer, NULL);
    for (int i = 0; i < 10; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
            _exit(127);
        }
        expect_exit(pid, 5);
        pid = vfork();
        if (pid == 0) _exit(6);
        expect_exit(pid, 6);
    }
    STORE(stop, 1);
    join(t);
    churn(2, 500);
    puts("vfork done");
    return done();
}
