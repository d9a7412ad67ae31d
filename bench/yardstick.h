/* Yardsticks: what this machine can do, measured by known means in the same run as what is compared with it. A rate alone
 * says little on a shared machine; a ratio to one of these does. */
#ifndef BO_BENCH_YARDSTICK_H
#define BO_BENCH_YARDSTICK_H

#include <bochner/base.h>

/* Large float32 products n x n x n on all cores, 2 n³ operations each: medians over the repeats, taken in turns. OpenBLAS
 * runs with the thread count it has; ours with the context's. */
typedef struct bo_yardstick {
    double openblas_gflops, own_gflops, best_gflops;
    const char *library; /* OpenBLAS and the core it was chosen for; a string that lives as long as the program */
    const char *isa;     /* of our own kernels */
    int openblas_threads, own_threads;
    size_t n;
} bo_yardstick;

/* n = 0 means 2048, repeats = 0 means 5 (at most 99). */
bo_status bo_yardstick_gemm(bo_context *context, size_t n, int repeats, bo_yardstick *out);

/* a[i] = b[i] + s c[i] on all threads over three arrays of `bytes` bytes together (0: 1 GiB); 3 numbers moved for each i.
 * Median over the repeats. */
bo_status bo_yardstick_triad(bo_context *context, size_t bytes, int repeats, double *gigabytes_per_second);

/* Small float32 products 64 x 64 x 128 on every thread at once, operands in cache: LIBXSMM where the library was built with
 * it, else our own micro-kernel; *implementation says which. */
bo_status bo_yardstick_small_gemm(bo_context *context, int repeats, double *gflops, const char **implementation);

#endif
