// Threads that wait for each other in every way there is, one after the other, with
// plain shared data handed over each time.
#include "check.h"
#include <semaphore.h>

enum { ROUNDS = 20, CHAIN = 6 };

static long data, seen;

// Locks in a chain: each thread holds one while it takes the next.
static pthread_mutex_t chain[CHAIN + 1];

static void *link_of_chain(void *arg) {
    long at = (long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&chain[at]);
        pthread_mutex_lock(&chain[at + 1]);
        pthread_mutex_lock(&chain[CHAIN]);
        data++;
        pthread_mutex_unlock(&chain[CHAIN]);
        if (at + 1 < CHAIN) pthread_mutex_unlock(&chain[at + 1]);
        pthread_mutex_unlock(&chain[at]);
    }
    return NULL;
}

static void chains(void) {
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    for (int i = 0; i <= CHAIN; i++) pthread_mutex_init(&chain[i], &again);
    pthread_t threads[CHAIN - 1];
    for (long i = 0; i < CHAIN - 1; i++) threads[i] = spawn(link_of_chain, (void *)i);
    for (int i = 0; i < CHAIN - 1; i++) join(threads[i]);
    CHECK(data == ROUNDS * (CHAIN - 1));
}

// A condition both ways: ping and pong.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;

static void *ping(void *arg) {
    int mine = (int)(long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        while (turn != mine) pthread_cond_wait(&turned, &lock);
        data++;
        turn = !mine;
        pthread_cond_signal(&turned);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

// Barriers: everybody reads what everybody wrote.
static pthread_barrier_t barrier;
static int row[3];

static void *stencil(void *arg) {
    int mine = (int)(long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        row[mine] = i;
        pthread_barrier_wait(&barrier);
        for (int j = 0; j < 3; j++) CHECK(row[j] == i);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

// Semaphores.
static sem_t full, room;
static int slot;

static void *taker(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&full);
        seen += slot;
        sem_post(&room);
    }
    return arg;
}

// Reader-writer locks.
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static int left_half, right_half;

static void *reader(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_rwlock_rdlock(&shared);
        CHECK(left_half == right_half);
        pthread_rwlock_unlock(&shared);
    }
    return arg;
}

// A flag that is spun on.
static int flag;
static long behind_flag;

static void *spinner(void *arg) {
    for (int i = 1; i <= ROUNDS; i++) {
        while (LOAD(flag) != 2 * i - 1) sched_yield();
        CHECK(behind_flag == i);
        STORE(flag, 2 * i);
    }
    return arg;
}

// Pipes.
static int to[2], from[2];
static long piped;

static void *echo(void *arg) {
    char byte;
    while (read(to[0], &byte, 1) == 1) {
        piped += byte;
        CHECK(write(from[1], &byte, 1) == 1);
    }
    return arg;
}

// Sleep until it is there.
static int ready;

static void *sleeper(void *arg) {
    while (!LOAD(ready)) sleep_ms(1);
    data = -1;
    return arg;
}

// Joins in a chain.
static void *joiner(void *arg) {
    long depth = (long)arg;
    if (depth > 0) join(spawn(joiner, (void *)(depth - 1)));
    data += depth;
    return NULL;
}

int main(void) {
    chains();
    pthread_t other = spawn(ping, (void *)1);
    ping((void *)0);
    join(other);
    CHECK(data == ROUNDS * (CHAIN - 1) + 2 * ROUNDS);
    pthread_barrier_init(&barrier, NULL, 3);
    pthread_t two[2] = {spawn(stencil, (void *)1), spawn(stencil, (void *)2)};
    stencil((void *)0);
    join(two[0]);
    join(two[1]);
    sem_init(&full, 0, 0);
    sem_init(&room, 0, 1);
    other = spawn(taker, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&room);
        slot = i;
        sem_post(&full);
    }
    join(other);
    CHECK(seen == ROUNDS * (ROUNDS - 1) / 2);
    other = spawn(reader, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_rwlock_wrlock(&shared);
        left_half++;
        right_half++;
        pthread_rwlock_unlock(&shared);
    }
    join(other);
    other = spawn(spinner, NULL);
    for (int i = 1; i <= ROUNDS; i++) {
        behind_flag = i;
        STORE(flag, 2 * i - 1);
        while (LOAD(flag) != 2 * i) sched_yield();
    }
    join(other);
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    other = spawn(echo, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 1;
        CHECK(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1);
        CHECK(piped == i + 1);
    }
    close(to[1]);
    join(other);
    other = spawn(sleeper, NULL);
    data = 7;
    STORE(ready, 1);
    join(other);
    CHECK(data == -1);
    joiner((void *)5);
    CHECK(data == 14);
    puts("all waits ended");
    return done();
}
