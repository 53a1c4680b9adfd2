// A delete empties the table, gives the table lock up and then writes to the binary log. An
// insert can fit in between: the table holds a row, but replaying the log ends with a delete.
// Fixed: the log is written before the table lock is given up.

#include <pthread.h>
#include <stdio.h>

enum statement { NONE, INSERT, DELETE };

static int table_rows = 3;
static enum statement log_last = NONE;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void write_log(enum statement s)
{
    pthread_mutex_lock(&log_lock);
    log_last = s;
    pthread_mutex_unlock(&log_lock);
}

static void *delete_rows(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&table_lock);
    table_rows = 0;
    write_log(DELETE);
    pthread_mutex_unlock(&table_lock);
    return NULL;
}

static void *insert_row(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&table_lock);
    table_rows++;
    write_log(INSERT);
    pthread_mutex_unlock(&table_lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, delete_rows, NULL);
    pthread_create(&b, NULL, insert_row, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    int replayed = log_last == INSERT ? 1 : 0;
    if (table_rows != replayed) {
        fprintf(stderr, "table has %d rows, its log makes %d\n", table_rows, replayed);
        return 1;
    }
    puts("table and log agree");
    return 0;
}
