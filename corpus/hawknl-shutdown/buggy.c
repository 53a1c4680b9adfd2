// Closing locks the socket and then the list of sockets; shutting down locks the list and then
// each socket in it.

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t socket_lock = PTHREAD_MUTEX_INITIALIZER;
static int listed = 1;
static int in_use = 1;

static void *close_socket(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&socket_lock); //~ guilty
    in_use = 0;
    pthread_mutex_lock(&list_lock); //~ guilty
    listed = 0;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_unlock(&socket_lock);
    return NULL;
}

static void *shutdown_all(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&list_lock); //~ guilty
    if (listed) {
        pthread_mutex_lock(&socket_lock); //~ guilty
        in_use = 0;
        pthread_mutex_unlock(&socket_lock);
    }
    pthread_mutex_unlock(&list_lock);
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, close_socket, NULL);
    pthread_create(&b, NULL, shutdown_all, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d sockets in use\n", in_use);
    return 0;
}
