/* Metrics: linear maps A of rows that define distances by M = AᵀA, |Ax - Ay|² = (x - y)ᵀ M (x - y).
 *
 * A is a power of a symmetric matrix S that is measured on data. DARK (arXiv 2603.04127) whitens queries and keys with
 * the power -1/2 of their covariance; recursive feature machines (arXiv 2212.13881) take half a power of the average
 * outer product of the gradients of a fitted function. Both use bo_metric_power. */
#ifndef BO_MATH_METRIC_H
#define BO_MATH_METRIC_H

#include "../base/base.h"

/* Eigenvectors (rows) and eigenvalues (ascending) of a symmetric matrix. */
bo_status bo_eigen_of(bo_context *context, size_t dim, const double *matrix, double *vectors, double *values);
/* out = Σ_i f_i v_i v_iᵀ for the eigenvectors v_i. */
void bo_eigen_compose(size_t dim, const double *vectors, const double *f, double *out);
/* A = Σ_i f_i v_i v_iᵀ if rank is dim: the symmetric root, which does not rotate directions. Otherwise one row f_i v_iᵀ
 * for each of the last `rank` eigenvectors, last first. `full` holds dim x dim numbers, a: rank x dim. */
void bo_metric_write(size_t dim, size_t rank, const double *vectors, const double *f, double *full, float *a);

/* A linear map of rows.
 * Invariants: 0 < rank <= dim; a diagonal map has rank dim and dim numbers, others have rank x dim; all are finite. */
typedef struct bo_metric {
    size_t dim, rank;
    bool diagonal;
    float *a;
} bo_metric;

/* A = S^(power/2) with mean eigenvalue of AᵀA 1: of the diagonal of S alone, or of all of S. Eigenvalues (or diagonal
 * entries) below `floor` times the largest are raised to it. S is dim x dim, positive semidefinite, not zero.
 * BO_NUMERIC otherwise. */
bo_status bo_metric_power(bo_context *context, size_t dim, const double *s, double power, bool diagonal, double floor,
                          bo_metric *out);
bo_status bo_metric_copy(bo_context *context, const bo_metric *metric, bo_metric *out);
void bo_metric_free(bo_metric *metric);
/* out = A x for one row; they do not overlap unless the map is diagonal. */
void bo_metric_row(const bo_metric *metric, const float *x, float *out);

#endif
