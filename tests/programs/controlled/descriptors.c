//@ world
// Pipes, socket pairs, eventfd, poll, select and epoll between threads; time-outs; descriptors that do not block.
#include "../hostile/check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>

static int up[2], down[2], pair[2], event;

static void *echo(void *arg) {
    char c;
    while (read(up[0], &c, 1) == 1) {
        c++;
        CHECK(write(down[1], &c, 1) == 1);
    }
    CHECK(close(down[1]) == 0);
    return arg;
}

static void *flood(void *arg) {
    static char much[200000];
    size_t sent = 0;
    while (sent < sizeof much) {
        ssize_t n = write(pair[0], much + sent, sizeof much - sent);
        CHECK(n > 0);
        sent += (size_t)n;
    }
    eventfd_write(event, 5);
    return arg;
}

int main(void) {
    char c = 'a', buffer[10000];
    CHECK(pipe(up) == 0 && pipe(down) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK((event = eventfd(0, 0)) >= 0);
    struct pollfd one = {down[0], POLLIN, 0};
    long long before = now_ns(CLOCK_MONOTONIC);
    CHECK(poll(&one, 1, 50) == 0 && now_ns(CLOCK_MONOTONIC) - before >= 50000000);
    struct timeval brief = {0, 20000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(down[0], &set);
    CHECK(select(down[0] + 1, &set, NULL, NULL, &brief) == 0);
    pthread_t e = spawn(echo, NULL);
    for (int i = 0; i < 5; i++) {
        CHECK(write(up[1], &c, 1) == 1);
        if (i % 2) CHECK(poll(&one, 1, -1) == 1 && (one.revents & POLLIN));
        CHECK(read(down[0], &c, 1) == 1 && c == 'b' + i);
    }
    CHECK(close(up[1]) == 0);
    CHECK(read(down[0], &c, 1) == 0); // the other end is closed
    join(e);
    CHECK(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
    CHECK(read(pair[1], &c, 1) == -1 && errno == EAGAIN);
    CHECK(recv(pair[0], &c, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(fcntl(pair[1], F_SETFL, 0) == 0);
    struct timeval patience = {0, 30000};
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    CHECK(recv(pair[1], &c, 1, 0) == -1 && errno == EAGAIN);
    patience.tv_usec = 0;
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    pthread_t f = spawn(flood, NULL);
    for (size_t got = 0; got < 200000;) {
        ssize_t n = recv(pair[1], buffer, sizeof buffer, 0);
        CHECK(n > 0);
        got += (size_t)n;
    }
    int ep = epoll_create1(0);
    struct epoll_event want = {EPOLLIN, {.fd = event}}, got;
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, event, &want) == 0);
    CHECK(epoll_wait(ep, &got, 1, -1) == 1 && got.data.fd == event);
    eventfd_t value;
    CHECK(eventfd_read(event, &value) == 0 && value == 5);
    CHECK(epoll_wait(ep, &got, 1, 10) == 0);
    join(f);
    CHECK(read(0, &c, 1) == 0); // standard input is at its end
    return done();
}
