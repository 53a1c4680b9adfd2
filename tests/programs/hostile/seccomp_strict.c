// A child in seccomp's strict mode (read, write, exit, sigreturn only) computes on
// shared data, atomics and an uncontended lock, then exits by the raw system call.
#include "check.h"
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int main(void) {
    long *cells = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(cells != MAP_FAILED);
    churn(2, 300);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) == 0);
        for (int i = 0; i < 20000; i++) {
            pthread_mutex_lock(&lock);
            cells[i % 500]++;
            pthread_mutex_unlock(&lock);
            ADD(cells[501], 1);
        }
        memset(&cells[502], 1, 8);
        syscall(SYS_exit, 9);
    }
    expect_exit(pid, 9);
    for (int i = 0; i < 500; i++) CHECK(cells[i] == 40);
    CHECK(cells[501] == 20000 && cells[502] == 0x0101010101010101L);
    puts("strict child computed");
    return done();
}
