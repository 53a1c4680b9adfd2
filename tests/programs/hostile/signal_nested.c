// Nested handlers three deep, with sa_mask keeping some out, and locks and
// condition variables in use by other threads meanwhile.
#include "check.h"
#include <signal.h>

static char order[32];
static int at, stop;
static long shared;

static void mark(char c) { order[at++] = c; }
static void on_usr1(int s) { (void)s; mark('1'); raise(SIGUSR2); mark('!'); }
static void on_usr2(int s) { (void)s; mark('2'); raise(SIGHUP); mark('@'); }
static void on_hup(int s) { (void)s; mark('3'); ADD(shared, 1); mark('#'); }

static void *hammer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) ADD(shared, 1);
    return NULL;
}

static void install(int sig, void (*f)(int), int masked) {
    struct sigaction sa = {0};
    sa.sa_handler = f;
    sigemptyset(&sa.sa_mask);
    if (masked) sigaddset(&sa.sa_mask, masked);
    CHECK(sigaction(sig, &sa, NULL) == 0);
}

static void run(const char *expected) {
    at = 0;
    memset(order, 0, sizeof order);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(strcmp(order, expected) == 0);
    puts(order);
}

int main(void) {
    pthread_t t = spawn(hammer, NULL);
    install(SIGUSR1, on_usr1, 0);
    install(SIGUSR2, on_usr2, 0);
    install(SIGHUP, on_hup, 0);
    run("123#@!");
    install(SIGUSR2, on_usr2, SIGHUP); // SIGHUP waits for on_usr2's end
    run("12@3#!");
    install(SIGUSR1, on_usr1, SIGUSR2);
    run("1!2@3#");
    for (int i = 0; i < 500; i++) {
        at = 0;
        raise(SIGUSR1);
    }
    STORE(stop, 1);
    join(t);
    return done();
}
