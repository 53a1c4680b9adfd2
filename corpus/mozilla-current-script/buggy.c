// A loader stores the script that it works on in a global and then compiles it through that
// global. The completion of another load clears the global in between.

#include <pthread.h>
#include <stdio.h>

struct script {
    int length;
    int compiled;
};

static struct script prologue = {120, 0};
static struct script *current_script;
static char request[32];

__attribute__((noinline)) static void launch_load(struct script *s)
{
    snprintf(request, sizeof request, "GET script, %d bytes", s->length);
}

static void *load_script(void *arg)
{
    current_script = arg; //~ guilty
    launch_load(arg);
    current_script->compiled = 1; //~ guilty
    return NULL;
}

static void *on_load_complete(void *arg)
{
    (void)arg;
    current_script = NULL; //~ guilty
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
