/* Forward substitution with a small triangle and many right-hand sides: what Cholesky and the triangular
 * solves do along the diagonal. */
#ifndef BO_MATH_SUBSTITUTION_H
#define BO_MATH_SUBSTITUTION_H

#include "../base/base.h"

/* How the triangle lies in memory. All are solved as W X = X with W lower and rows taken in ascending order. */
typedef enum bo_triangle {
    BO_TRIANGLE_LOWER,            /* W[i][p] = t[i][p] */
    BO_TRIANGLE_UPPER_TRANSPOSED, /* W[i][p] = t[p][i] of an upper triangle t */
    BO_TRIANGLE_LOWER_TRANSPOSED, /* W = tᵀ of a lower triangle t, with rows and columns in reverse order */
} bo_triangle;

typedef struct bo_substitution bo_substitution;

/* Rows of the largest triangle that may be taken at once: a whole number of the micro-kernel's slivers. */
size_t bo_substitution_rows(const bo_context *context);
/* For triangles of at most `rows` rows (<= bo_substitution_rows) and at most `columns` right-hand sides. */
bo_status bo_substitution_create(bo_context *context, size_t rows, size_t columns, bo_substitution **out);
void bo_substitution_destroy(bo_substitution *substitution);

/* X (n x m) := T⁻¹ X for the triangle T meant by (triangle, t), n and m as promised at creation. */
void bo_substitution_solve(bo_context *context, bo_substitution *substitution, bo_triangle triangle, size_t n,
                           const double *t, size_t ldt, size_t m, double *x, size_t ldx);

#endif
