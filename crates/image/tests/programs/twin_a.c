/* Two files with a local function of the same name, each with an unlikely part. */
#include <stdlib.h>
extern int shared;
static __attribute__((noinline)) void step(int by) {
    if (__builtin_expect(by > 1000, 0)) {
        shared = -1;
        abort();
    }
    shared += by;
}
void a(int by) { step(by); step(by + 1); }
