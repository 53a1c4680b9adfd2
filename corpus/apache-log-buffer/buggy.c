// The buffered log writer looks whether a line fits, copies it to the end and adds its
// length. Nothing protects the fill count, so two requests copy to the same place and the
// log is corrupted.

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER_SIZE = 64 };

struct buffered_log {
    int outcnt;
    char output[BUFFER_SIZE];
};

static struct buffered_log log_buffer;
static int flushes;

__attribute__((noinline)) static void flush_log(void)
{
    flushes++;
    log_buffer.outcnt = 0;
}

__attribute__((noinline)) static void copy_line(char *end, const char *line, int len)
{
    memcpy(end, line, (size_t)len);
}

__attribute__((noinline)) static void log_writer(const char *line, int len)
{
    if (log_buffer.outcnt + len > BUFFER_SIZE) //~ guilty
        flush_log();
    char *end = &log_buffer.output[log_buffer.outcnt]; //~ guilty
    copy_line(end, line, len);
    log_buffer.outcnt += len; //~ guilty
}

static void *request(void *arg)
{
    const char *line = arg;
    log_writer(line, (int)strlen(line));
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    log_writer("start\n", 6);
    pthread_create(&a, NULL, request, "GET /index\n");
    pthread_create(&b, NULL, request, "PUT /upload\n");
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    log_buffer.output[log_buffer.outcnt] = '\0';
    if (!strstr(log_buffer.output, "GET /index\n") || !strstr(log_buffer.output, "PUT /upload\n")) {
        fprintf(stderr, "access log is corrupted: %d bytes\n", log_buffer.outcnt);
        return 1;
    }
    puts("2 lines logged");
    return 0;
}
