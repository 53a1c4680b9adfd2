/* Six-step fast Fourier transform of one shared array of complex numbers, forward and back.
 *
 *   fft LOG2_SIZE THREADS
 *
 * The array of 2^(2m) points is seen as a 2^m x 2^m matrix: transpose, transform the rows, twiddle, transpose,
 * transform the rows, transpose. Threads own bands of rows; a transpose reads the bands of all the others, and a
 * barrier parts the steps. Check: the transform of a shifted impulse is known in closed form, and the inverse
 * transform must give the input back.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double re, im;
} point;

static point *data, *scratch;   /* side x side each, shared by all threads */
static point *root;             /* root[k] = exp(-2 pi i k / points) */
static size_t side, points;
static unsigned long threads;
static pthread_barrier_t step;
static const double pi = 3.14159265358979323846;

static point times(point x, point y)
{
    return (point){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static point plus(point x, point y)
{
    return (point){x.re + y.re, x.im + y.im};
}

static point minus(point x, point y)
{
    return (point){x.re - y.re, x.im - y.im};
}

static double distance(point x, point y)
{
    return hypot(x.re - y.re, x.im - y.im);
}

/* In-place radix-2 transform of one row of `side` points. */
static void transform_row(point *row)
{
    for (size_t i = 1, j = 0; i < side; i++) {
        size_t bit = side >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            point t = row[i];
            row[i] = row[j];
            row[j] = t;
        }
    }
    for (size_t half = 1; half < side; half *= 2) {
        size_t stride = points / (2 * half);
        for (size_t start = 0; start < side; start += 2 * half)
            for (size_t k = 0; k < half; k++) {
                point even = row[start + k], odd = times(root[k * stride], row[start + k + half]);
                row[start + k] = plus(even, odd);
                row[start + k + half] = minus(even, odd);
            }
    }
}

static void transpose(point *to, const point *from, size_t first, size_t last)
{
    for (size_t i = first; i < last; i++)
        for (size_t j = 0; j < side; j++)
            to[i * side + j] = from[j * side + i];
}

/* One whole transform, by all threads together; ends with a barrier. */
static void transform(size_t first, size_t last)
{
    transpose(scratch, data, first, last);
    pthread_barrier_wait(&step);
    for (size_t i = first; i < last; i++) {
        transform_row(&scratch[i * side]);
        for (size_t j = 0; j < side; j++)
            scratch[i * side + j] = times(scratch[i * side + j], root[i * j % points]);
    }
    pthread_barrier_wait(&step);
    transpose(data, scratch, first, last);
    pthread_barrier_wait(&step);
    for (size_t i = first; i < last; i++)
        transform_row(&data[i * side]);
    pthread_barrier_wait(&step);
    transpose(scratch, data, first, last);
    pthread_barrier_wait(&step);
    for (size_t i = first * side; i < last * side; i++)
        data[i] = scratch[i];
    pthread_barrier_wait(&step);
}

/* The inverse transform is the conjugate of the transform of the conjugate. */
static void conjugate(size_t first, size_t last, double scale)
{
    for (size_t i = first * side; i < last * side; i++)
        data[i] = (point){data[i].re * scale, -data[i].im * scale};
}

static size_t impulse_at(void)
{
    return points / 3;
}

static double worst_forward[64];

static void *worker(void *argument)
{
    unsigned long me = (unsigned long)argument;
    size_t first = side * me / threads, last = side * (me + 1) / threads;
    double worst = 0.0;

    transform(first, last);
    for (size_t i = first * side; i < last * side; i++)
        worst = fmax(worst, distance(data[i], root[i * impulse_at() % points]));
    worst_forward[me] = worst;
    conjugate(first, last, 1.0);
    pthread_barrier_wait(&step);
    transform(first, last);
    conjugate(first, last, 1.0 / (double)points);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long log2 = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (log2 < 4 || log2 > 28 || log2 % 2 != 0 || threads == 0 || threads > 64) {
        fprintf(stderr, "usage: fft LOG2_SIZE THREADS   (LOG2_SIZE even, 4 to 28; THREADS 1 to 64)\n");
        return 2;
    }
    points = (size_t)1 << log2;
    side = (size_t)1 << (log2 / 2);
    data = calloc(points, sizeof *data);
    scratch = calloc(points, sizeof *scratch);
    root = calloc(points, sizeof *root);
    if (!data || !scratch || !root || pthread_barrier_init(&step, NULL, (unsigned)threads) != 0)
        return 3;
    for (size_t k = 0; k < points; k++) {
        double angle = -2.0 * pi * (double)k / (double)points;
        root[k] = (point){cos(angle), sin(angle)};
    }
    data[impulse_at()].re = 1.0;

    pthread_t tid[64];
    for (unsigned long t = 0; t < threads; t++)
        if (pthread_create(&tid[t], NULL, worker, (void *)t) != 0)
            return 3;
    for (unsigned long t = 0; t < threads; t++)
        pthread_join(tid[t], NULL);

    double worst = 0.0;
    for (unsigned long t = 0; t < threads; t++)
        worst = fmax(worst, worst_forward[t]);
    for (size_t i = 0; i < points; i++)
        worst = fmax(worst, distance(data[i], (point){i == impulse_at() ? 1.0 : 0.0, 0.0}));
    pthread_barrier_destroy(&step);
    free(data);
    free(scratch);
    free(root);
    if (!(worst < 1e-9)) {
        fprintf(stderr, "fft: error %g\n", worst);
        return 1;
    }
    printf("ok fft %zu\n", points);
    return 0;
}
