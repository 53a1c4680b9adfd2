// After a request the balancer decrements the worker's busy counter if it is not zero. Test,
// read and write are not atomic: two requests can decrement a count of one, or lose a
// decrement, and the worker looks busy for ever.

#include <pthread.h>
#include <stdio.h>

struct worker {
    unsigned busy;
};

static struct worker worker = {2};

__attribute__((noinline)) static void log_release(unsigned request)
{
    char line[32];
    snprintf(line, sizeof line, "request %u done", request);
}

__attribute__((noinline)) static unsigned less_one(unsigned busy)
{
    return busy - 1;
}

static void *post_request(void *arg)
{
    (void)arg;
    if (worker.busy) { //~ guilty
        log_release(7);
        unsigned next = less_one(worker.busy); //~ guilty
        worker.busy = next; //~ guilty
    }
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    log_release(0);
    pthread_create(&a, NULL, post_request, NULL);
    pthread_create(&b, NULL, post_request, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    if (worker.busy != 0) {
        fprintf(stderr, "idle worker is counted as busy: %u\n", worker.busy);
        return 1;
    }
    puts("worker is idle");
    return 0;
}
