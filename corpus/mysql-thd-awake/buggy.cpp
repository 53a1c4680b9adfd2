// KILL tests that the connection still has its thread variables and then uses them. The
// connection's own thread sets the pointer to null when it detaches, in between.

#include <cstdio>
#include <mutex>
#include <sys/socket.h>
#include <thread>

struct MysysVar {
    int abort;
};

static MysysVar worker_var;

struct Connection {
    MysysVar *mysys_var = &worker_var;
    int killed = 0;
    int socket = -1; // no network here: shutting it down fails, harmlessly
    std::mutex lock;
};

static Connection thd;

__attribute__((noinline)) static void close_socket(Connection &c)
{
    c.killed++;
    shutdown(c.socket, SHUT_RDWR);
}

static void awake()
{
    std::lock_guard<std::mutex> hold(thd.lock);
    if (thd.mysys_var) { //~ guilty
        close_socket(thd);
        thd.mysys_var->abort = 1; //~ guilty
    }
}

static void thread_detach()
{
    thd.mysys_var = nullptr; //~ guilty
}

int main()
{
    std::thread killer([] { awake(); });
    std::thread connection([] { thread_detach(); });
    killer.join();
    connection.join();
    std::printf("connection closed, abort flag %s\n", worker_var.abort == thd.killed ? "fits" : "odd");
    return 0;
}
