//@ flags: -fno-builtin
// Static functions named like libc's: the program's own are called, for the program.
#include <stddef.h>
static long calls;
static long read(int fd, char *to, size_t n);
static int write(int n);
static unsigned sleep(unsigned n) { calls += n; return 5; }
static void *malloc(size_t n);
static int pthread_mutex_lock(int *m) { return ++*m; }
#include <stdint.h>
static char pool[256];
static long read(int fd, char *to, size_t n) { to[0] = (char)fd; return (long)n; }
static int write(int n) { calls += n; return 6; }
static void *malloc(size_t n) { return pool + n; }
int printf(const char *, ...);
int puts(const char *);

int main(void) {
    char c = 0;
    int mutex = 3;
    if (read(7, &c, 9) != 9 || c != 7) return 1;
    if (write(2) != 6 || sleep(3) != 5 || calls != 5) return 2;
    if (malloc(10) != pool + 10) return 3;
    if (pthread_mutex_lock(&mutex) != 4) return 4;
    puts("own names, own functions");
    puts("EXIT-SUCCESS");
    return 0;
}
