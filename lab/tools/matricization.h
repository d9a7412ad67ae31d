/* A function of two halves (A, B) of its input as a matrix with one row per setting of A and one column per setting of
 * B. Its rank is a lower bound of the separation rank, the smallest R with f = Σ_{r ≤ R} g_r(A) h_r(B), and reaches it
 * if there are enough settings. Approximate ranks follow from the singular values: in d₂, the mean squared error over
 * the settings, the nearest matrix of rank R is the truncated one (Eckart and Young 1936). */
#ifndef BO_LAB_TOOLS_MATRICIZATION_H
#define BO_LAB_TOOLS_MATRICIZATION_H

#include "modular.h"
#include "../../cli/shared/ranks.h"

/* `left` numbers of A come first in x, followed by `right` numbers of B. Either may be absent. */
typedef struct lab_function {
    size_t left, right; /* left + right ≤ LAB_INPUTS */
    uint32_t (*exact)(const void *user, const uint32_t *x);
    double (*real)(const void *user, const double *x);
    const void *user;
} lab_function;

enum { LAB_INPUTS = 64 };

/* The rank modulo the prime on random settings, the same number for A and B. If it equals `settings`, there may have
 * been too few. */
bo_status lab_exact_rank(bo_context *context, const lab_function *f, size_t settings, bo_rng *rng, size_t *rank);
/* The matrix (settings x settings) on settings from N(0, 1). */
bo_status lab_matricize(bo_context *context, const lab_function *f, size_t settings, bo_rng *rng, double *out);
/* The matrix on the grid of all combinations of `templates` (`count` numbers) in each half: count^left rows and
 * count^right columns; the first input varies slowest. */
bo_status lab_matricize_grid(bo_context *context, const lab_function *f, size_t count, const double *templates,
                             double *out);

/* The number of values above `tolerance` · the first; 0: the default tolerance for double, size · 2⁻⁵². */
size_t lab_numerical_rank(const double *values, size_t count, double tolerance);
/* Sizes of the entries of a matrix: mean |·|, √ mean |·|², largest |·|. Each is at most the next. */
typedef struct lab_sizes {
    double mean, square, largest;
} lab_sizes;
lab_sizes lab_matrix_sizes(const double *matrix, size_t count);

/* Distances of the matrix from its truncations: errors[R] to rank R, for R = 0 … the smaller of rows and columns. */
bo_status lab_truncation_errors(bo_context *context, size_t rows, size_t columns, const double *matrix,
                                lab_sizes *errors);
/* Smallest ranks whose truncation is within `epsilon` · √ mean |matrix|². For `square`, no matrix of lower rank is as
 * near. For the others one may be, but for `largest` none below `square`. */
typedef struct lab_epsilon_ranks {
    size_t mean, square, largest;
} lab_epsilon_ranks;
lab_epsilon_ranks lab_epsilon_rank(const lab_sizes *errors, size_t count, double epsilon);

#endif
