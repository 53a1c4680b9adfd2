// malloc, locks and atomics in a .preinit_array function and in constructors of
// priority 101: earlier than any ordinary start-up code.
#include "check.h"

static char *texts[3];
static long shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void allocate(int slot) {
    pthread_mutex_lock(&lock);
    texts[slot] = calloc(1, 1000);
    CHECK(texts[slot]);
    for (int i = 0; i < 999; i++) texts[slot][i] = (char)('a' + slot);
    texts[slot] = realloc(texts[slot], 100000);
    CHECK(texts[slot]);
    pthread_mutex_unlock(&lock);
    ADD(shared, 1);
}

static void preinit(int argc, char **argv, char **envp) {
    (void)argc, (void)argv, (void)envp;
    allocate(0);
}
__attribute__((section(".preinit_array"), used)) static void (*const entry)(int, char **, char **) = preinit;
__attribute__((constructor(101))) static void first(void) { allocate(1); }
__attribute__((constructor)) static void second(void) { allocate(2); }

int main(void) {
    CHECK(shared == 3);
    churn(2, 300);
    for (int i = 0; i < 3; i++) {
        CHECK(strlen(texts[i]) == 999 && texts[i][998] == 'a' + i);
        free(texts[i]);
    }
    puts("early blocks intact");
    return done();
}
