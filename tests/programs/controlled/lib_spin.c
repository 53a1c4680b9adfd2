// Waits where nobody looks.
int spin_until(volatile int *flag) {
    while (!*flag) {
    }
    return *flag;
}
