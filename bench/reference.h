/* References: the speed of this host, measured with known operations in the same run as the results. On a shared host,
 * ratios to a reference are more stable than rates. */
#ifndef BO_BENCH_REFERENCE_H
#define BO_BENCH_REFERENCE_H

#include <bochner/base.h>

/* Large float32 products n x n x n on all cores, 2 n³ operations each. Rates are medians over the repeats; OpenBLAS and
 * Bochner's GEMM alternate. OpenBLAS uses its default number of threads, Bochner's GEMM the number of the context.
 * Without OpenBLAS, only Bochner's GEMM is measured. */
typedef struct bo_reference_rate {
    double openblas_gflops; /* 0 without OpenBLAS */
    double bochner_gflops, best_gflops;
    /* OpenBLAS and its core type, or why it is missing; static storage */
    const char *library;
    const char *isa;                       /* instruction set of Bochner's kernels */
    int openblas_threads, bochner_threads; /* openblas_threads: 0 without OpenBLAS */
    size_t n;
} bo_reference_rate;

/* n = 0 means 2048; repeats = 0 means 5 (at most 99). */
bo_status bo_reference_gemm(bo_context *context, size_t n, int repeats, bo_reference_rate *out);

/* Large products of bfloat16 numbers n x n x n on all threads, and the peak of the CPU: a loop of the product
 * instruction on registers. Rates are the best of the repeats, which alternate. n = 0 means 2048. */
typedef struct bo_narrow_reference {
    double gflops, peak_gflops; /* peak_gflops: 0 if the context's instruction set has no product of bfloat16 numbers */
    const char *instruction;    /* a constant */
    size_t n;
} bo_narrow_reference;
bo_status bo_reference_narrow_gemm(bo_context *context, size_t n, int repeats, bo_narrow_reference *out);

/* a[i] = b[i] + s c[i] on all threads, over three arrays of `bytes` bytes in total (0: 1 GiB); counts 3 numbers moved
 * per i. Returns the median over the repeats. */
bo_status bo_reference_triad(bo_context *context, size_t bytes, int repeats, double *gigabytes_per_second);

/* Small float32 products 64 x 64 x 128 on all threads in parallel, with operands in cache: LIBXSMM if the library was
 * built with it, otherwise Bochner's micro-kernel; *implementation is the name of the one used. */
bo_status bo_reference_small_gemm(bo_context *context, int repeats, double *gflops, const char **implementation);

#endif
