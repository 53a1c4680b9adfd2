// Threads write numbered slots and say, in a file that outlives them, how far each has come.
//
// With a control file as argument (struct control), the file says how many writes each thread makes and
// how the process ends when the first thread has made its own. A write is announced there after it was
// made: whoever reads the file after the process was killed knows what must have been recorded.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WRITERS = 3, SLOTS = 1009, BURST = 64 };
enum { END_RETURN, END_ABORT, END_EXIT, END_SEGV };

struct control {
    uint64_t pid;
    uint64_t limit;
    uint64_t ending;
    uint64_t done[WRITERS];
};

static struct control own = {.limit = 1000};
static volatile struct control *control = &own;
static long slots[WRITERS][SLOTS];

// The announcements are no part of what is recorded.
#define QUIET __attribute__((noinline, no_sanitize("thread")))

QUIET static void announce(long id, uint64_t done) { control->done[id] = done; }

QUIET static uint64_t limit(void) { return control->limit; }

QUIET static void breathe(void) {
    for (volatile int i = 0; i < 20000; i++) {
    }
}

QUIET static void end_as_told(void) {
    switch (control->ending) {
    case END_ABORT: abort();
    case END_EXIT: _exit(7);
    case END_SEGV: *(volatile int *)16 = 1;
    }
}

static void *writer(void *arg) {
    long id = (long)arg;
    char name[16];
    snprintf(name, sizeof name, "writer-%ld", id);
    pthread_setname_np(pthread_self(), name);
    uint64_t end = limit();
    for (uint64_t i = 0; i < end; i++) {
        slots[id][i % SLOTS] = (long)i;
        announce(id, i + 1);
        if (i % BURST == BURST - 1)
            breathe();
    }
    if (id == 0)
        end_as_told();
    return NULL;
}

QUIET static void take_control(const char *path) {
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

int main(int argc, char **argv) {
    if (argc > 1)
        take_control(argv[1]);
    pthread_t threads[WRITERS];
    for (long id = 0; id < WRITERS; id++)
        pthread_create(&threads[id], NULL, writer, (void *)id);
    for (int id = 0; id < WRITERS; id++)
        pthread_join(threads[id], NULL);
    long sum = 0;
    for (int id = 0; id < WRITERS; id++)
        for (int slot = 0; slot < SLOTS; slot++)
            sum += slots[id][slot];
    printf("sum %ld\nEXIT-SUCCESS\n", sum);
    return 0;
}
