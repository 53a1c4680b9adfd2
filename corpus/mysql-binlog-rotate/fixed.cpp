// Rotation closes the log and opens it again under the log's lock. An insert asks without
// the lock whether the log is open; between close and open the answer is no, and the
// statement is missing in the log.
// Fixed: the question is asked under the lock.

#include <cstdio>
#include <mutex>
#include <thread>

enum LogType { LOG_CLOSED, LOG_NORMAL };

struct BinLog {
    LogType type = LOG_NORMAL;
    int file = 1;
    int statements = 0;
    std::mutex lock;
};

static BinLog binlog;

__attribute__((noinline)) static void close_log()
{
    binlog.type = LOG_CLOSED;
    binlog.file++;
}

__attribute__((noinline)) static void open_log()
{
    if (binlog.file > 0)
        binlog.type = LOG_NORMAL;
}

static void rotate()
{
    std::lock_guard<std::mutex> hold(binlog.lock);
    close_log();
    open_log();
}

static void insert()
{
    std::lock_guard<std::mutex> hold(binlog.lock);
    if (binlog.type == LOG_CLOSED)
        return;
    binlog.statements++;
}

int main()
{
    std::thread client([] { insert(); });
    std::thread flusher([] { rotate(); });
    client.join();
    flusher.join();
    if (binlog.statements != 1) {
        std::fprintf(stderr, "the insert is not in the binary log\n");
        return 1;
    }
    std::printf("1 statement logged, file %d\n", binlog.file);
    return 0;
}
