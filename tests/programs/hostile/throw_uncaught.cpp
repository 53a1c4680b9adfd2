//@ signal: SIGABRT
// An exception nobody catches, in a second thread: the terminate handler runs,
// then the process aborts.
#include "check.h"
#include <exception>
#include <thread>

static void last_words() {
    puts("terminate called");
    fflush(stdout);
    abort();
}

int main() {
    churn(2, 300);
    std::set_terminate(last_words);
    std::thread([] { throw 1; }).join();
    puts("not reached");
}
