#include <stdlib.h>
int shared;
void a(int by);
static __attribute__((noinline)) void step(int by) {
    if (__builtin_expect(by > 2000, 0)) {
        shared = -2;
        abort();
    }
    shared -= by;
}
int main(int argc, char **argv) { (void)argv; a(argc); step(argc); step(argc * 2); return 0; }
