//@ world
// A server whose housekeeper does nothing but sleep and look around, and a client in another process that takes its
// time: its requests are seen, and the housekeeper has not run through hours until they come.
#include "../hostile/check.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { REQUESTS = 20, ROUNDS_MOST = 20000 };

static int listener, handed_over, connection = -1;
static long rounds;
static int stopping;

static void *housekeeper(void *arg) {
    while (!LOAD(stopping)) {
        ADD(rounds, 1);
        usleep(1000);
    }
    return arg;
}

static int ready(int ep, int fd) {
    struct epoll_event want = {EPOLLIN, {.fd = fd}}, got;
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &want) == 0);
    while (epoll_wait(ep, &got, 1, 1000) == 0) { // with a clock of its own, as event loops have
    }
    CHECK(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL) == 0);
    return got.data.fd;
}

static void *worker(void *arg) {
    int ep = epoll_create1(0);
    eventfd_t value;
    CHECK(ready(ep, handed_over) == handed_over && eventfd_read(handed_over, &value) == 0);
    for (char c; ready(ep, LOAD(connection)) >= 0 && read(connection, &c, 1) == 1;) {
        c++;
        CHECK(write(connection, &c, 1) == 1);
    }
    STORE(stopping, 1);
    return arg;
}

static void client(struct sockaddr_in *to) {
    usleep(300000);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int bad = connect(fd, (struct sockaddr *)to, sizeof *to);
    for (int i = 0; i < REQUESTS && !bad; i++) {
        char c = (char)('a' + i);
        bad = write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1 || c != (char)('b' + i);
    }
    _exit(bad);
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof any;
    CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && (handed_over = eventfd(0, 0)) >= 0);
    CHECK(bind(listener, (struct sockaddr *)&any, len) == 0 && listen(listener, 4) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&any, &len) == 0);
    pid_t child = fork();
    if (child == 0) client(&any);
    CHECK(child > 0);
    pthread_t keeper = spawn(housekeeper, NULL), one = spawn(worker, NULL);
    int ep = epoll_create1(0);
    CHECK(ready(ep, listener) == listener);
    STORE(connection, accept(listener, NULL, NULL));
    CHECK(connection >= 0 && eventfd_write(handed_over, 1) == 0);
    join(one);
    join(keeper);
    CHECK(LOAD(rounds) < ROUNDS_MOST);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return done();
}
