// The monitor tests that a connection has a state text and then prints it. The connection
// clears the text in between, and the print follows a null pointer.
// Fixed: a lock covers test and use, and the clearing.

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct connection {
    const char *proc_info;
    int id;
};

static struct connection thd = {"sending data", 7};
static char line[64];
static int columns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void print_id(int id)
{
    columns += snprintf(line, sizeof line, "%d ", id);
}

__attribute__((noinline)) static void print_text(const char *text)
{
    strncat(line, text, sizeof line - 1 - strlen(line));
}

static void *monitor(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    if (thd.proc_info) {
        print_id(thd.id);
        print_text(thd.proc_info);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *dispatch(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    thd.proc_info = NULL;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    print_id(0);
    print_text("start");
    pthread_create(&a, NULL, monitor, NULL);
    pthread_create(&b, NULL, dispatch, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("process list printed");
    return 0;
}
