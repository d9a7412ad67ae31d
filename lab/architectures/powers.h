/* Powers of a matrix in float64. */
#ifndef BO_LAB_ARCHITECTURES_POWERS_H
#define BO_LAB_ARCHITECTURES_POWERS_H

#include "../experiment.h"

/* Computes the rows b, Ab, …, A^(length-1) b for a symmetric A (n x n), one step at a time. */
bo_status lab_powers_steps(bo_context *context, size_t n, const double *a, const double *b, size_t length, double *out);
/* The same by doubling: X becomes (X, A^L X), and A^L is squared. `length` is a power of two. scratch: 2 n² numbers. */
bo_status lab_powers_doubling(bo_context *context, size_t n, const double *a, const double *b, size_t length,
                              double *scratch, double *out);
/* Computes ranks[L - 1] of (Λ + PQᵀ)^L - Λ^L for L = 1 … count, counting singular values above 1e-10 of the largest; n
 * is at most 16. */
bo_status lab_powers_ranks(bo_context *context, size_t n, const double *diagonal, const double *p, const double *q,
                           size_t count, double *ranks);
/* Computes (I + PPᵀ)^L b with scalars only: b + P (P·b) ((1 + |P|²)^L - 1) / |P|². */
void lab_powers_closed(size_t n, const double *p, const double *b, size_t length, double *out);

#endif
