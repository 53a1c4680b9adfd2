// A filter that kills on everything a sandboxed worker has no need of (mmap, open,
// pwrite64, prlimit64, futex, clone, ...): first around a forked child, then
// around one thread of a running process.
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static long *cells;
static int finished;

static void forbid(void) {
    static const int calls[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_brk, SYS_open, SYS_openat,
        SYS_pwrite64, SYS_prlimit64, SYS_futex, SYS_clone, SYS_clone3, SYS_fork, SYS_ftruncate, SYS_fallocate, SYS_close,
        SYS_rt_sigprocmask, SYS_gettid, SYS_getpid, SYS_sched_yield, SYS_nanosleep, SYS_clock_nanosleep, SYS_ioctl, SYS_fcntl};
    enum { N = sizeof calls / sizeof calls[0] };
    struct sock_filter code[2 * N + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int i = 0; i < N; i++) {
        code[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    code[2 * N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {2 * N + 2, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

static void compute(int from) {
    for (int i = 0; i < 20000; i++) ADD(cells[from + i % 100], 1);
    for (int i = 0; i < 100; i++) cells[from + 100 + i] = LOAD(cells[from + i]);
}

static void *sandboxed(void *arg) {
    forbid();
    compute((int)(long)arg);
    STORE(finished, 1);
    for (;;) { // leaving a thread takes calls that the filter forbids
    }
    return NULL;
}

int main(void) {
    cells = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(cells != MAP_FAILED);
    churn(2, 300);
    pid_t pid = fork();
    if (pid == 0) {
        forbid();
        compute(0);
        _exit(21);
    }
    expect_exit(pid, 21);
    spawn(sandboxed, (void *)300);
    while (!LOAD(finished)) usleep(100);
    for (int i = 0; i < 100; i++) CHECK(cells[100 + i] == 200 && cells[400 + i] == 200);
    churn(2, 300);
    puts("sandboxed work done");
    return done();
}
