//@ flags: -fno-builtin
// memcpy, memmove with overlap, memset, memcmp and the str family, of all small
// sizes and alignments, large ones and zero length, against byte-wise models.
#include "check.h"
#include <strings.h>

enum { N = 300, BIG = 1 << 20 };
static unsigned char model[N], a[N], b[N];

static void fill(unsigned char *p, unsigned seed) {
    for (int i = 0; i < N; i++) p[i] = (unsigned char)(seed = seed * 1103515245 + 12345) | 1;
}

static void *big(void *arg) {
    unsigned char *x = malloc(BIG + 64), *y = malloc(BIG + 64);
    CHECK(x && y);
    for (int i = 0; i < BIG; i++) x[i] = (unsigned char)(i * 31 >> 3);
    CHECK(memcpy(y + 3, x, BIG) == y + 3 && memcmp(x, y + 3, BIG) == 0);
    CHECK(memmove(y, y + 3, BIG) == y && memcmp(x, y, BIG) == 0);
    CHECK(memmove(y + 40, y, BIG - 40) == y + 40 && memcmp(x, y + 40, BIG - 40) == 0);
    CHECK(memset(y, 9, BIG) == y && y[BIG - 1] == 9 && memchr(y, 8, BIG) == NULL);
    free(x);
    free(y);
    return arg;
}

int main(void) {
    pthread_t t[2] = {spawn(big, NULL), spawn(big, NULL)};
    for (int from = 0; from < 20; from++)
        for (int to = 0; to < 20; to++)
            for (int n = 0; n < 200; n += 1 + n / 20) {
                fill(a, (unsigned)n);
                memcpy(model, a, N);
                for (int i = 0; i < n; i++) model[to + i] = a[from + i]; // a is not changed yet
                memcpy(b, a, N);
                CHECK(memmove(a + to, a + from, (size_t)n) == a + to && memcmp(a, model, N) == 0);
                CHECK(memcpy(model + to, b + from, (size_t)n) == model + to && memcmp(a, model, N) == 0);
            }
    char s[64] = "selvedge", d[64];
    CHECK(memcpy(d, s, 0) == d && memset(s, 0, 0) == s && memmove(s, s, 0) == s && memcmp(s, d, 0) == 0);
    CHECK(strcmp(strcpy(d, s), "selvedge") == 0 && stpcpy(d, "ab") == d + 2 && strlen(strcat(d, "cd")) == 4);
    CHECK(strncpy(d, "xy", 5) == d && memcmp(d, "xy\0\0\0", 5) == 0 && strncat(d, "zzzz", 2) == d && !strcmp(d, "xyzz"));
    CHECK(strncmp("abc", "abd", 2) == 0 && strcmp("abc", "abd") < 0 && strcasecmp("ABC", "abc") == 0);
    CHECK(strchr(s, 'v') == s + 3 && strrchr(s, 'e') == s + 7 && strstr(s, "edge") == s + 4 && strnlen(s, 3) == 3);
    CHECK(mempcpy(d, s, 4) == d + 4 && strspn(s, "els") == 3 && strpbrk(s, "gd") == s + 5);
    char *copy = strndup(s, 4);
    CHECK(copy && strcmp(copy, "selv") == 0);
    free(copy);
    join(t[0]);
    join(t[1]);
    puts("blocks and strings");
    return done();
}
