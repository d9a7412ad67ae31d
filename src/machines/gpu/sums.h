/* Fits of kernel machines on a GPU (device_sums.h): sums.c adds rows, systems.c solves systems. */
#ifndef BO_MACHINES_GPU_SUMS_H
#define BO_MACHINES_GPU_SUMS_H

#include "../../device/gpu/launch.h"
#include "../device_sums.h"

enum { BO_FIT_BLOCKS = 24 };

/* Addresses of the device unless stated otherwise. Strides are multiples of 32 numbers. */
struct bo_device_sums {
    bo_device *device;
    size_t features, outputs, target_columns, size; /* target_columns = outputs + 1, size = features + target_columns */
    bool precise;
    float quantum;
    bool maps; /* the device computes features from x; false: they come from the host */
    /* a block of rows; u: features from the host, or scratch memory of the map */
    float *x, *u, *columns, *root;
    void *z; /* float64 if `precise` or rounded, otherwise float32 */
    int8_t *q;
    void *sums; /* size x panel: products of a run of rows, as float32 or integers */
    size_t ldz, q_rows;
    double *g; /* size x ldg; its upper triangle */
    size_t ldg;
    bool mirrored;                 /* the lower triangle of the features, too */
    double *margins;               /* columns, then the diagonal */
    double *host_margins;          /* the same on the host … */
    bool margins_known;            /* … if it was read after the last row */
    double *vectors;               /* 2 features: center and penalty, or the two of a product */
    double *a, *factor, *inverses; /* of the latest system: features x lda twice, blocks of the diagonal; or NULL */
    size_t lda;
    bo_gpu_pivot *pivot;
    double *right, *solution; /* of a system: features x solved */
    size_t solved;
    void *owned[BO_FIT_BLOCKS]; /* all memory of the device except `right` and `solution` */
    size_t owned_count;
};

/* Allocates memory of the device that lives as long as the sums. */
bo_status bo_fit_reserve(bo_context *context, bo_device_sums *sums, size_t count, size_t size, const char *label,
                         void *out);
/* D = alpha op(A) op(B) + beta D in float64. */
bo_status bo_fit_multiply(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha,
                          const double *a, size_t lda, const double *b, size_t ldb, double beta, double *d, size_t ldd);
/* The upper triangle of C (n x n) += alpha ZᵀZ for Z of k rows: panels of columns from `first` on, each down to the
 * diagonal. */
bo_status bo_fit_upper(bo_context *context, const bo_device_sums *s, size_t first, size_t n, size_t k, double alpha,
                       const double *z, size_t ldz, double *c, size_t ldc);
/* Columns of a panel. */
size_t bo_fit_panel(const bo_device_sums *sums);

#endif
