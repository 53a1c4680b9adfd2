// Thread names by prctl and pthread_setname_np are what the program set, for the
// main thread too; scheduling attributes and affinity read back as they were.
#include "check.h"
#include <sched.h>
#include <sys/prctl.h>

static void *body(void *arg) {
    char name[32];
    CHECK(pthread_setname_np(pthread_self(), "weaver") == 0);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "weaver") == 0);
    CHECK(prctl(PR_SET_NAME, "warp", 0, 0, 0) == 0);
    CHECK(prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && strcmp(name, "warp") == 0);
    churn(2, 100);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "warp") == 0);
    return arg;
}

int main(void) {
    char name[32];
    pthread_attr_t attr;
    size_t size;
    int state;
    cpu_set_t cpus;
    CHECK(prctl(PR_SET_NAME, "loom-main", 0, 0, 0) == 0);
    CHECK(pthread_setname_np(pthread_self(), "a name that is too long") == ERANGE);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) t[i] = spawn(body, NULL);
    for (int i = 0; i < 4; i++) join(t[i]);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "loom-main") == 0);
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
    CHECK(pthread_attr_getstacksize(&attr, &size) == 0 && size > 65536);
    CHECK(pthread_attr_getdetachstate(&attr, &state) == 0 && state == PTHREAD_CREATE_JOINABLE);
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= 1);
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    puts("names kept");
    return done();
}
