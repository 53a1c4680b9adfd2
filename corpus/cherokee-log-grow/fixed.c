// The server's log buffer is shared by all connections without a lock. One connection moves
// the text to a larger block; another still writes to the old block, and its line is lost
// although the length counts it.
// Fixed: appending holds the logger's lock.

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct buffer {
    char *data;
    int size;
    int len;
};

static char first_block[11];
static char second_block[64];
static struct buffer buffer = {first_block, sizeof first_block, 0};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void grow(void)
{
    memcpy(second_block, buffer.data, (size_t)buffer.len);
    buffer.size = sizeof second_block;
    buffer.data = second_block;
}

__attribute__((noinline)) static void append(const char *line)
{
    int n = (int)strlen(line);
    pthread_mutex_lock(&lock);
    if (buffer.len + n > buffer.size)
        grow();
    char *data = buffer.data;
    int at = buffer.len;
    memcpy(data + at, line, (size_t)n);
    buffer.len = at + n;
    pthread_mutex_unlock(&lock);
}

static void *connection(void *arg)
{
    append(arg);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    append("up ");
    pthread_create(&a, NULL, connection, "GET 200");
    pthread_create(&b, NULL, connection, "DELETE 404");
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (buffer.len != 20 || !memchr(buffer.data, 'G', 20) || !memchr(buffer.data, 'D', 20)) {
        fprintf(stderr, "log is corrupted: %d bytes\n", buffer.len);
        return 1;
    }
    puts("20 bytes logged");
    return 0;
}
