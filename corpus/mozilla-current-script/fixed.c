// A loader stores the script that it works on in a global and then compiles it through that
// global. The completion of another load clears the global in between.
// Fixed: store and use hold the document's lock, and so does the completion.

#include <pthread.h>
#include <stdio.h>

struct script {
    int length;
    int compiled;
};

static struct script prologue = {120, 0};
static struct script *current_script;
static char request[32];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void launch_load(struct script *s)
{
    snprintf(request, sizeof request, "GET script, %d bytes", s->length);
}

static void *load_script(void *arg)
{
    pthread_mutex_lock(&lock);
    current_script = arg;
    launch_load(arg);
    current_script->compiled = 1;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *on_load_complete(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    current_script = NULL;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    snprintf(request, sizeof request, "idle, %d loads", 0);
    pthread_create(&a, NULL, load_script, &prologue);
    pthread_create(&b, NULL, on_load_complete, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d script compiled\n", prologue.compiled);
    return 0;
}
