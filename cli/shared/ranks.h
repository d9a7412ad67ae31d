/* The singular values of a matrix, and approximate ranks that follow from them. */
#ifndef CLI_SHARED_RANKS_H
#define CLI_SHARED_RANKS_H

#include <bochner/base.h>

/* A matrix (rows x columns) = U diag(values) Vᵀ with U rows x count, Vᵀ count x columns, count = min(rows, columns) and
 * values in descending order. The matrix is preserved. `copy` (rows x columns) is scratch memory of the caller. */
typedef struct bo_singular {
    size_t rows, columns, count;
    double *copy, *u, *values, *vt;
} bo_singular;
/* bo_singular_close must be called in any case, also after an error. */
bo_status bo_singular_open(bo_context *context, size_t rows, size_t columns, const double *matrix, bo_singular *s);
void bo_singular_close(bo_singular *s);
/* The values only; their number is min(rows, columns). */
bo_status bo_singular_values(bo_context *context, size_t rows, size_t columns, const double *matrix, double *values);

/* exp(entropy of σ² / Σσ²): the effective number of directions. */
double bo_effective_rank(const double *values, size_t count);
/* The smallest rank within ε in d₂: the norm of the omitted part is at most ε √Σσ². */
size_t bo_rank_within(const double *values, size_t count, double epsilon);

#endif
