// The thread object's handle is assigned from the return value of the call that starts the
// thread. The thread's main function reads the handle and may be faster than the assignment.

#include <cstdio>
#include <pthread.h>

struct Handle {
    int state;
    pthread_t id;
};

struct ThreadObject {
    Handle *handle = nullptr;
    Handle storage{};
};

static ThreadObject self;

// The thread's event queue is created before its state is looked at.
__attribute__((noinline)) static unsigned create_queue()
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void *thread_main(void *arg)
{
    auto *object = static_cast<ThreadObject *>(arg);
    if (create_queue())
        object->handle->state = 1; //~ guilty
    return nullptr;
}

__attribute__((noinline)) static Handle *create_thread(ThreadObject *object)
{
    pthread_create(&object->storage.id, nullptr, thread_main, object);
    return &object->storage;
}

int main()
{
    self.handle = create_thread(&self); //~ guilty
    pthread_join(self.storage.id, nullptr);
    std::printf("thread state %d\n", self.storage.state);
    return self.storage.state == 1 ? 0 : 1;
}
