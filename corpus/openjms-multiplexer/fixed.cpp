// One thread reads the multiplexer under the connection's lock, the other sets it without the
// lock and after requests may arrive. A request that comes early is refused.
// Fixed: the multiplexer is set before requests are accepted.

#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>

struct Multiplexer {
    int channels = 3;
};

struct Connection {
    Multiplexer *multiplexer = nullptr;
    std::mutex lock;
};

static Multiplexer shared_multiplexer;
static Connection connection;
static int served;

// Reads and decodes the request before it is handed on.
__attribute__((noinline)) static unsigned decode()
{
    unsigned x = 1;
    for (int n = 0; n < 6000000; n++)
        x = x * 1664525u + 1013904223u;
    return x;
}

static void invoke()
{
    if (!decode())
        return;
    std::lock_guard<std::mutex> hold(connection.lock);
    Multiplexer *multiplexer = connection.multiplexer;
    if (!multiplexer)
        throw std::runtime_error("connection is not established");
    served = multiplexer->channels;
}

int main()
{
    connection.multiplexer = &shared_multiplexer;
    std::thread request(invoke);
    request.join();
    std::printf("request served on %d channels\n", served);
    return 0;
}
