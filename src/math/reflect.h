/* Householder reflectors H = I - τ v vᵀ with v[0] = 1, and blocks of them (Golub and Van Loan, 5.1). Vectors are
 * rows. */
#ifndef BO_MATH_REFLECT_H
#define BO_MATH_REFLECT_H

#include "../base/base.h"

/* Computes H with H x = (beta, 0, 0, …) and overwrites x (n >= 1 numbers) with v. Returns beta. H is
 * orthogonal to the precision of double for numbers of any size, also subnormal ones. If x[1], x[2], … are zero, τ = 0
 * and H = I. */
double bo_reflector(const bo_context *context, size_t n, double *x, double *tau);

/* Applies a block of reflectors to rows by matrix products: Q = H_0 H_1 … H_{k-1} = I - Vᵀ T V with the vectors as rows
 * of V and T upper triangular (the compact WY form, Schreiber and Van Loan 1989). */
typedef struct bo_reflectors bo_reflectors;

/* Allocates for blocks of at most `max_count` vectors of at most n numbers, applied to at most `rows` rows. Then
 * nothing can fail. */
bo_status bo_reflectors_create(bo_context *context, size_t max_count, size_t n, size_t rows, bo_reflectors **out);
void bo_reflectors_destroy(bo_reflectors *reflectors);
/* Copies `count` vectors of length n. Vector i starts at v[i * ldv + i]; numbers before it and its first number, which
 * is 1, are not read. transposed: the rows are multiplied by Qᵀ, else by Q. */
void bo_reflectors_load(bo_context *context, bo_reflectors *reflectors, size_t count, size_t n, const double *v,
                        size_t ldv, const double *tau, bool transposed);
/* Replaces each row x (as a column) by Q x or Qᵀ x. */
void bo_reflectors_apply(bo_context *context, const bo_reflectors *reflectors, size_t rows, double *x, size_t ldx);

/* Factors A = L Q (rows x n, rows <= n), row by row: afterwards A holds L in its lower triangle with the diagonal, the
 * vectors right of it, and tau their factors. The reflectors serve blocks of any size for n and `rows`. */
void bo_lq(bo_context *context, size_t rows, size_t n, double *a, size_t lda, double *tau, bo_reflectors *reflectors);
/* Overwrites the result of bo_lq with the first `rows` rows of Q. */
void bo_lq_rows(bo_context *context, size_t rows, size_t n, double *a, size_t lda, const double *tau,
                bo_reflectors *reflectors);

#endif
