//@ flags: -mcx16 -latomic
// Sixteen-byte atomics: a pointer with a version, and a pair that must never tear.
#include "check.h"
#include <atomic>

struct alignas(16) Pair {
    uint64_t low, high;
};
static std::atomic<Pair> pair;
static __int128 wide __attribute__((aligned(16)));

static void *worker(void *arg) {
    for (int i = 0; i < 1000; i++) {
        Pair seen = pair.load();
        do CHECK(seen.high == ~seen.low);
        while (!pair.compare_exchange_weak(seen, Pair{seen.low + 1, ~(seen.low + 1)}));
        __int128 old = __atomic_load_n(&wide, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n(&wide, &old, old + (((__int128)1 << 64) | 2), true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        }
    }
    return arg;
}

int main() {
    pair.store(Pair{0, ~0ULL});
    pthread_t t[4];
    for (auto &id : t) id = spawn(worker, NULL);
    for (auto id : t) join(id);
    Pair end = pair.exchange(Pair{1, 2}, std::memory_order_acq_rel);
    CHECK(end.low == 4000 && end.high == ~4000ULL);
    Pair wrong{9, 9};
    CHECK(!pair.compare_exchange_strong(wrong, Pair{0, 0}) && wrong.low == 1 && wrong.high == 2);
    CHECK((uint64_t)(wide >> 64) == 4000 && (uint64_t)wide == 8000);
    CHECK((uint64_t)(__atomic_fetch_add(&wide, (__int128)1 << 70, __ATOMIC_SEQ_CST) >> 64) == 4000);
    CHECK((uint64_t)(__atomic_exchange_n(&wide, 5, __ATOMIC_SEQ_CST) >> 64) == 4064 && wide == 5);
    puts("16 bytes");
    return done();
}
