/* Annotations for programs that are built with Selvedge.
 *
 * Without Selvedge they cost nothing: marks are a few bytes of data that nobody reads, calls are left out at link time or
 * end at once. `selvedge cc` finds this header by itself; other builds can keep a copy of it.
 */
#ifndef SELVEDGE_H
#define SELVEDGE_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__ELF__) && (defined(__GNUC__) || defined(__clang__))

/* A mark: where it stands, and what it asks for. */
#define SELVEDGE_MARK_(kind)                                                                                           \
    __asm__ __volatile__("771:\n\t.pushsection .selvedge.marks,\"a\",%progbits\n\t"                                    \
                         ".balign 4\n\t.long 771b - .\n\t.long " #kind "\n\t.popsection")

void selvedge_guard_address(const volatile void *address) __attribute__((weak));
void selvedge_section_begin(const volatile void *address, __SIZE_TYPE__ size) __attribute__((weak));
void selvedge_section_end(const volatile void *address) __attribute__((weak));

/* The guard is to watch all accesses of this function to memory that threads share. */
#define SELVEDGE_GUARD_FUNCTION() SELVEDGE_MARK_(1)
/* The same for this block of code: from the last branch to the next. */
#define SELVEDGE_GUARD_BLOCK() SELVEDGE_MARK_(2)
/* The same for all accesses to this address, wherever they are; learnt in training runs. */
#define SELVEDGE_GUARD_ADDRESS(address)                                                                                \
    do {                                                                                                               \
        if (selvedge_guard_address) selvedge_guard_address(address);                                                   \
    } while (0)
/* What this thread does to `variable` from here on is one atomic section, until it says that it is over: `selvedge detect` tells when
 * another thread comes between two accesses in a way that no serial order explains. */
#define SELVEDGE_SECTION_BEGIN(variable)                                                                               \
    do {                                                                                                               \
        SELVEDGE_MARK_(3);                                                                                             \
        if (selvedge_section_begin) selvedge_section_begin(&(variable), sizeof(variable));                             \
    } while (0)
#define SELVEDGE_SECTION_END(variable)                                                                                 \
    do {                                                                                                               \
        if (selvedge_section_end) selvedge_section_end(&(variable));                                                   \
    } while (0)

#else

#define SELVEDGE_GUARD_FUNCTION() ((void)0)
#define SELVEDGE_GUARD_BLOCK() ((void)0)
#define SELVEDGE_GUARD_ADDRESS(address) ((void)(address))
#define SELVEDGE_SECTION_BEGIN(variable) ((void)0)
#define SELVEDGE_SECTION_END(variable) ((void)0)

#endif

#ifdef __cplusplus
}
#endif

#endif
