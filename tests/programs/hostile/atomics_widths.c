// C11 atomics of 1, 2, 4 and 8 bytes: every operation in every order returns what a
// plain model says; then a counter per width by four threads.
#include "check.h"
#include <stdatomic.h>

#define WIDTH(T)                                                                                 \
    static _Atomic T counter_##T;                                                                \
    __attribute__((noinline)) static void model_##T(void) {                                      \
        _Atomic T x = 0;                                                                         \
        T m = 0, v = (T)0x3b;                                                                    \
        const memory_order all[] = {memory_order_relaxed, memory_order_acquire,                  \
                                    memory_order_release, memory_order_acq_rel, memory_order_seq_cst}; \
        for (int i = 0; i < 400; i++, v = (T)(v * 5 + 1)) {                                      \
            memory_order o = all[i % 5], load = i % 2 ? memory_order_acquire : memory_order_seq_cst; \
            memory_order store = i % 2 ? memory_order_release : memory_order_seq_cst;            \
            CHECK(atomic_fetch_add_explicit(&x, v, o) == m); m = (T)(m + v);                     \
            CHECK(atomic_fetch_sub_explicit(&x, 7, o) == m); m = (T)(m - 7);                     \
            CHECK(atomic_fetch_or_explicit(&x, v, o) == m); m = (T)(m | v);                      \
            CHECK(atomic_fetch_xor_explicit(&x, 0x55, o) == m); m = (T)(m ^ 0x55);               \
            CHECK(atomic_fetch_and_explicit(&x, (T)~v, o) == m); m = (T)(m & (T)~v);             \
            CHECK(__atomic_fetch_nand((T *)&x, v, __ATOMIC_SEQ_CST) == m); m = (T) ~(m & v);     \
            CHECK(atomic_exchange_explicit(&x, v, o) == m); m = v;                               \
            T expected = (T)(m + 1);                                                             \
            CHECK(!atomic_compare_exchange_strong_explicit(&x, &expected, 9, o, load) && expected == m); \
            CHECK(atomic_compare_exchange_strong_explicit(&x, &expected, (T)(m ^ 3), o, memory_order_relaxed)); \
            m = (T)(m ^ 3);                                                                      \
            expected = m;                                                                        \
            while (!atomic_compare_exchange_weak_explicit(&x, &expected, (T)(m + 2), o, load)) CHECK(expected == m); \
            m = (T)(m + 2);                                                                      \
            CHECK(atomic_load_explicit(&x, load) == m);                                          \
            m = (T)(m >> 1);                                                                     \
            atomic_store_explicit(&x, m, store);                                                 \
            CHECK(++x == (T)(m + 1) && x-- == (T)(m + 1) && (x |= 1) == (T)(m | 1)); m = (T)(m | 1); \
        }                                                                                        \
    }                                                                                            \
    static void *count_##T(void *arg) {                                                          \
        for (int i = 0; i < 1000; i++) {                                                         \
            if (i % 2) atomic_fetch_add_explicit(&counter_##T, 3, memory_order_relaxed);         \
            else {                                                                               \
                T seen = atomic_load(&counter_##T);                                              \
                while (!atomic_compare_exchange_weak(&counter_##T, &seen, (T)(seen + 3))) {}     \
            }                                                                                    \
        }                                                                                        \
        return arg;                                                                              \
    }
WIDTH(uint8_t)
WIDTH(uint16_t)
WIDTH(uint32_t)
WIDTH(uint64_t)

#define RUN(T)                                                  \
    do {                                                        \
        model_##T();                                            \
        pthread_t t[4];                                         \
        for (int i = 0; i < 4; i++) t[i] = spawn(count_##T, NULL); \
        for (int i = 0; i < 4; i++) join(t[i]);                 \
        CHECK(counter_##T == (T)12000);                         \
        puts(#T);                                               \
    } while (0)

int main(void) {
    RUN(uint8_t);
    RUN(uint16_t);
    RUN(uint32_t);
    RUN(uint64_t);
    return done();
}
