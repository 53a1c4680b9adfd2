//@ hidden
// system() and popen() while threads work; system() keeps its signal promises.
#include "check.h"
#include <signal.h>

static int stop;
static long shared;

static void *hammer(void *arg) {
    (void)arg;
    while (!LOAD(stop)) {
        ADD(shared, 1);
        usleep(100);
    }
    return NULL;
}

int main(void) {
    // Who starts us may ignore it.
    signal(SIGINT, SIG_DFL);
    pthread_t t = spawn(hammer, NULL);
    struct sigaction sa;
    CHECK(system(NULL) != 0);
    puts("before");
    fflush(stdout);
    int status = system("echo from the shell; exit 9");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    CHECK(sigaction(SIGINT, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL);
    status = system("kill -TERM $$");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);

    char line[64];
    FILE *in = popen("printf 'one\\ntwo\\n'", "r");
    CHECK(in);
    while (fgets(line, sizeof line, in)) printf("popen: %s", line);
    CHECK(pclose(in) == 0);
    fflush(stdout);
    FILE *out = popen("tr a-z A-Z; exit 3", "w");
    CHECK(out);
    fputs("shouted\n", out);
    status = pclose(out);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    STORE(stop, 1);
    join(t);
    churn(2, 300);
    return done();
}
