//@ hidden
// posix_spawn with file actions from two threads at once.
#include "check.h"
#include <fcntl.h>
#include <spawn.h>

extern char **environ;

static void *spawner(void *arg) {
    char name[32], line[32] = {0};
    snprintf(name, sizeof name, "out-%ld", (long)arg);
    for (int i = 0; i < 5; i++) {
        char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo spawned; exit 4", NULL};
        posix_spawn_file_actions_t actions;
        pid_t pid;
        CHECK(posix_spawn_file_actions_init(&actions) == 0);
        CHECK(posix_spawn_file_actions_addopen(&actions, 1, name, O_CREAT | O_TRUNC | O_WRONLY, 0600) == 0);
        CHECK(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ) == 0);
        expect_exit(pid, 4);
        CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
        FILE *f = fopen(name, "r");
        CHECK(f && fgets(line, sizeof line, f));
        fclose(f);
        CHECK(strcmp(line, "spawned\n") == 0);
    }
    return NULL;
}

int main(void) {
    pthread_t a = spawn(spawner, (void *)1), b = spawn(spawner, (void *)2);
    churn(2, 500);
    join(a);
    join(b);
    pid_t pid;
    char *argv[] = {(char *)"nothing", NULL};
    CHECK(posix_spawn(&pid, "/nonexistent/nothing", NULL, NULL, argv, environ) == ENOENT);
    puts("10 spawned");
    return done();
}
