// The emulator starts its video thread and then resets the shared state that the thread
// uses. A frame that is delivered before the reset is forgotten.

#include <pthread.h>
#include <stdio.h>

static int frames_ready = -1;

/* Renders one frame. */
__attribute__((noinline)) static unsigned render(void)
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *video(void *arg)
{
    (void)arg;
    if (render())
        frames_ready = 1; //~ guilty
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, video, NULL);
    frames_ready = 0; //~ guilty
    pthread_join(thread, NULL);
    if (frames_ready != 1) {
        fprintf(stderr, "the first frame was lost\n");
        return 1;
    }
    puts("first frame shown");
    return 0;
}
