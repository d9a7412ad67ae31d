/* A function of two halves (A, B) of its input as a matrix: a row for each setting of A, a column for each of B. Its rank is a
 * lower bound of the separation rank, the least R with f = Σ_{r ≤ R} g_r(A) h_r(B), and reaches it where there are enough
 * settings. What distance allows for, the singular values tell: in d₂, the mean squared error over the settings, the nearest
 * matrix of rank R is the truncated one (Eckart and Young 1936). */
#ifndef BO_LAB_TOOLS_MATRICIZATION_H
#define BO_LAB_TOOLS_MATRICIZATION_H

#include "modular.h"

/* `left` numbers of A come first in x, `right` of B follow. Either may be missing. */
typedef struct lab_function {
    size_t left, right; /* left + right ≤ LAB_INPUTS */
    uint32_t (*exact)(const void *user, const uint32_t *x);
    double (*real)(const void *user, const double *x);
    const void *user;
} lab_function;

enum { LAB_INPUTS = 64 };

/* The rank modulo the prime on random settings, as many of A as of B. Equal to `settings`: there may have been too few. */
bo_status lab_exact_rank(bo_context *context, const lab_function *f, size_t settings, bo_rng *rng, size_t *rank);
/* The matrix (settings x settings) on settings drawn from N(0, 1). */
bo_status lab_matricize(bo_context *context, const lab_function *f, size_t settings, bo_rng *rng, double *out);
/* … and on the grid of all combinations of `templates` (`count` numbers) in either half: rows count^left, columns
 * count^right, the first input varying slowest. */
bo_status lab_matricize_grid(bo_context *context, const lab_function *f, size_t count, const double *templates,
                             double *out);

/* Descending; the matrix stays. `values`: the smaller of rows and columns. */
bo_status lab_singular_values(bo_context *context, size_t rows, size_t columns, const double *matrix, double *values);
/* How many exceed `tolerance` · the first; 0: the usual one for double, size · 2⁻⁵². */
size_t lab_numerical_rank(const double *values, size_t count, double tolerance);
/* exp(entropy of σ² / Σσ²): how many directions carry the matrix. */
double lab_effective_rank(const double *values, size_t count);

/* The least rank within ε in d₂: what is left out has at most ε of the matrix's size, √Σσ². */
size_t lab_rank_within(const double *values, size_t count, double epsilon);

/* The sizes of a matrix's entries: mean |·|, √ mean |·|², largest |·|. Each is at most the next. */
typedef struct lab_sizes {
    double mean, square, largest;
} lab_sizes;
lab_sizes lab_matrix_sizes(const double *matrix, size_t count);

/* How far the matrix is from its truncations: errors[R] that to rank R, for R = 0 … the smaller of rows and columns. */
bo_status lab_truncation_errors(bo_context *context, size_t rows, size_t columns, const double *matrix,
                                lab_sizes *errors);
/* Least ranks whose truncation is within `epsilon` · √ mean |matrix|². Of `square` no matrix of lower rank is as near; of the
 * others one may be, but in `largest` none below `square`. */
typedef struct lab_epsilon_ranks {
    size_t mean, square, largest;
} lab_epsilon_ranks;
lab_epsilon_ranks lab_epsilon_rank(const lab_sizes *errors, size_t count, double epsilon);

#endif
