/* Blocked LU factorisation of one shared matrix, without pivoting.
 *
 *   lu_blocked SIZE THREADS
 *
 * Blocks are owned in a checkerboard, and a barrier parts the three phases of a step: factor the diagonal block,
 * solve its row and column panels, update what is left. The matrix is diagonally dominant, so no pivot is needed.
 * Check: (L*U) * x must be A * x for a known x.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 16 };

static double *a;          /* n x n, row-major, factored in place */
static size_t n;
static unsigned long threads;
static pthread_barrier_t phase;

/* The input element (i, j), so that the check needs no second copy of the matrix. */
static double input(size_t i, size_t j)
{
    unsigned long h = (i * 2654435761UL + j * 40503UL) & 0xffff;
    return i == j ? (double)n + 1.0 : (double)h / 65536.0;
}

static unsigned long owner(size_t bi, size_t bj)
{
    return (bi + bj) % threads;
}

/* Factors the diagonal block that starts at k. */
static void diagonal(size_t k)
{
    for (size_t p = k; p < k + BLOCK; p++)
        for (size_t i = p + 1; i < k + BLOCK; i++) {
            double l = a[i * n + p] /= a[p * n + p];
            for (size_t j = p + 1; j < k + BLOCK; j++)
                a[i * n + j] -= l * a[p * n + j];
        }
}

/* Solves L(k,k) * X = A(k,j): the block right of the diagonal. */
static void row_panel(size_t k, size_t j0)
{
    for (size_t p = k; p < k + BLOCK; p++)
        for (size_t i = p + 1; i < k + BLOCK; i++) {
            double l = a[i * n + p];
            for (size_t j = j0; j < j0 + BLOCK; j++)
                a[i * n + j] -= l * a[p * n + j];
        }
}

/* Solves X * U(k,k) = A(i,k): the block below the diagonal. */
static void column_panel(size_t k, size_t i0)
{
    for (size_t i = i0; i < i0 + BLOCK; i++)
        for (size_t p = k; p < k + BLOCK; p++) {
            double l = a[i * n + p] /= a[p * n + p];
            for (size_t j = p + 1; j < k + BLOCK; j++)
                a[i * n + j] -= l * a[p * n + j];
        }
}

/* A(i,j) -= L(i,k) * U(k,j): where nearly all the time goes. */
static void update(size_t k, size_t i0, size_t j0)
{
    for (size_t i = i0; i < i0 + BLOCK; i++)
        for (size_t p = k; p < k + BLOCK; p++) {
            double l = a[i * n + p];
            for (size_t j = j0; j < j0 + BLOCK; j++)
                a[i * n + j] -= l * a[p * n + j];
        }
}

static void *worker(void *argument)
{
    unsigned long me = (unsigned long)argument;
    size_t blocks = n / BLOCK;

    for (size_t k = 0; k < blocks; k++) {
        if (owner(k, k) == me)
            diagonal(k * BLOCK);
        pthread_barrier_wait(&phase);
        for (size_t b = k + 1; b < blocks; b++) {
            if (owner(k, b) == me)
                row_panel(k * BLOCK, b * BLOCK);
            if (owner(b, k) == me)
                column_panel(k * BLOCK, b * BLOCK);
        }
        pthread_barrier_wait(&phase);
        for (size_t i = k + 1; i < blocks; i++)
            for (size_t j = k + 1; j < blocks; j++)
                if (owner(i, j) == me)
                    update(k * BLOCK, i * BLOCK, j * BLOCK);
        pthread_barrier_wait(&phase);
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
    if (n == 0 || n % BLOCK != 0 || threads == 0 || threads > 64) {
        fprintf(stderr, "usage: lu_blocked SIZE THREADS   (SIZE a multiple of %d, THREADS 1 to 64)\n", BLOCK);
        return 2;
    }
    a = malloc(n * n * sizeof *a);
    if (!a || pthread_barrier_init(&phase, NULL, (unsigned)threads) != 0)
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
    pthread_barrier_destroy(&phase);
    free(a);
    if (!(worst < 1e-9)) {
        fprintf(stderr, "lu_blocked: relative error %g\n", worst);
        return 1;
    }
    printf("ok lu_blocked %zu\n", n);
    return 0;
}
