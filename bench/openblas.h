/* OpenBLAS as a reference for speed. It is loaded when a benchmark compares with it; nothing links it. */
#ifndef BO_BENCH_OPENBLAS_H
#define BO_BENCH_OPENBLAS_H

#include <stdbool.h>
#include <stddef.h>

/* The functions used. Matrices of dsyevd are stored by columns, its arguments are passed by address, and after all
 * others Fortran expects the length of each string. */
typedef struct bo_openblas {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc);
    void (*dsyevd)(const char *vectors, const char *triangle, const int *n, double *a, const int *lda, double *values,
                   double *work, const int *work_size, int *integers, const int *integers_size, int *info, size_t,
                   size_t);
    void (*dgesdd)(const char *vectors, const int *m, const int *n, double *a, const int *lda, double *values,
                   double *u, const int *ldu, double *vt, const int *ldvt, double *work, const int *work_size,
                   int *integers, int *info, size_t);
    char *(*config)(void);
    char *(*core)(void);
    int (*threads)(void);
} bo_openblas;

enum { BO_OPENBLAS_ROW_MAJOR = 101, BO_OPENBLAS_PLAIN = 111 };

/* Returns the functions, or NULL; then *reason, a constant, is the cause. The library stays loaded until the program
 * ends, because its threads keep running. It is not loaded under a limit of the address space (ulimit -v): if an
 * allocation fails, OpenBLAS retries forever. */
const bo_openblas *bo_openblas_load(const char **reason);

#endif
