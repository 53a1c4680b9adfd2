/* LU factorisation of one shared matrix, without pivoting: nearly every access is to shared memory.
 *
 *   lu SIZE THREADS
 *
 * Rows are dealt to the threads in turn; a barrier ends each elimination step. The matrix is diagonally dominant,
 * so no pivot is needed. Check: (L*U) * x must be A * x for a known x.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static double *a;          /* n x n, row-major, factored in place */
static size_t n;
static unsigned long threads;
static pthread_barrier_t step;

/* The input element (i, j), so that the check needs no second copy of the matrix. */
static double input(size_t i, size_t j)
{
    unsigned long h = (i * 2654435761UL + j * 40503UL) & 0xffff;
    return i == j ? (double)n + 1.0 : (double)h / 65536.0;
}

/* Eliminates column k below the diagonal, in this thread's rows. */
static void eliminate(size_t k, unsigned long me)
{
    for (size_t i = k + 1; i < n; i++) {
        if (i % threads != me)
            continue;
        double l = a[i * n + k] /= a[k * n + k];
        for (size_t j = k + 1; j < n; j++)
            a[i * n + j] -= l * a[k * n + j];
    }
}

static void *worker(void *argument)
{
    for (size_t k = 0; k < n; k++) {
        eliminate(k, (unsigned long)argument);
        pthread_barrier_wait(&step);
    }
    return NULL;
}

/* The largest relative error of (L*U)*x against A*x. */
static double check(void)
{
    double *y = malloc(n * sizeof *y), worst = 0.0;
    if (!y)
        return INFINITY;
    for (size_t i = 0; i < n; i++) {       /* y = U * x, x[j] = 1 + j mod 3 */
        y[i] = 0.0;
        for (size_t j = i; j < n; j++)
            y[i] += a[i * n + j] * (double)(1 + j % 3);
    }
    for (size_t i = 0; i < n; i++) {
        double have = y[i], want = 0.0;
        for (size_t j = 0; j < i; j++)
            have += a[i * n + j] * y[j];
        for (size_t j = 0; j < n; j++)
            want += input(i, j) * (double)(1 + j % 3);
        worst = fmax(worst, fabs(have - want) / fabs(want));
    }
    free(y);
    return worst;
}

int main(int argc, char **argv)
{
    n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (n == 0 || threads == 0 || threads > 64) {
        fprintf(stderr, "usage: lu SIZE THREADS   (THREADS 1 to 64)\n");
        return 2;
    }
    a = malloc(n * n * sizeof *a);
    if (!a || pthread_barrier_init(&step, NULL, (unsigned)threads) != 0)
        return 3;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            a[i * n + j] = input(i, j);

    pthread_t tid[64];
    for (unsigned long t = 0; t < threads; t++)
        if (pthread_create(&tid[t], NULL, worker, (void *)t) != 0)
            return 3;
    for (unsigned long t = 0; t < threads; t++)
        pthread_join(tid[t], NULL);

    double worst = check();
    pthread_barrier_destroy(&step);
    free(a);
    if (!(worst < 1e-9)) {
        fprintf(stderr, "lu: relative error %g\n", worst);
        return 1;
    }
    printf("ok lu %zu\n", n);
    return 0;
}
