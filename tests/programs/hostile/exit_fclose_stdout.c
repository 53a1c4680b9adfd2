// stdout, stderr and stdin are closed early; the program goes on and exits 0.
#include "check.h"
#include <fcntl.h>

int main(void) {
    churn(2, 300);
    done();
    CHECK(fclose(stdout) == 0);
    CHECK(fclose(stderr) == 0);
    CHECK(fclose(stdin) == 0);
    // The next descriptors are 0, 1 and 2: nothing of ours may go there.
    for (int fd = 0; fd < 3; fd++) CHECK(open("file", O_RDWR | O_CREAT, 0600) == fd);
    churn(3, 500);
    for (int fd = 0; fd < 3; fd++) CHECK(lseek(fd, 0, SEEK_END) == 0);
    return 0;
}
