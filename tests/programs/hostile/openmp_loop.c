//@ needs: openmp
//@ flags: -fopenmp
//@ env: OMP_NUM_THREADS=3
//@ hidden
// OpenMP: reduction, critical, atomic, barrier, tasks and nested data sharing.
#include "check.h"
#include <omp.h>

int main(void) {
    static long cells[1000];
    long sum = 0, critical = 0, atomic = 0, tasks = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 1000; i++) {
        cells[i] = i;
        sum += cells[i];
#pragma omp critical
        critical++;
#pragma omp atomic
        atomic += 2;
    }
    CHECK(sum == 499500 && critical == 1000 && atomic == 2000);
#pragma omp parallel
    {
        cells[omp_get_thread_num()] = -1;
#pragma omp barrier
#pragma omp single
        for (int i = 0; i < 50; i++) {
#pragma omp task shared(tasks)
            {
#pragma omp atomic
                tasks++;
            }
        }
    }
    CHECK(tasks == 50 && cells[0] == -1 && omp_get_max_threads() == 3);
    churn(2, 300);
    puts("parallel loops");
    return done();
}
