/* Statistics for proposals: moments of the rows of a key head, and the optimal normal distribution for drawing the
 * frequencies of positive features. */
#ifndef BO_ATTENTION_DARK_H
#define BO_ATTENTION_DARK_H

#include "calls.h"
#include "row_transform.h"

/* Returns a call with only its layout set: enough for bo_rows_at. */
static inline bo_call bo_layout_of(const bo_attention *attention, const bo_attention_shape *shape,
                                   const bo_geometry *geometry)
{
    return (bo_call){.attention = attention,
                     .kernels = attention->kernels,
                     .shape = shape,
                     .sequences = geometry->sequences,
                     .queries_total = geometry->queries_total,
                     .keys_total = geometry->keys_total};
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The rows of `count` heads, starting at `first`, of every sequence: q or k of one key head, or of all. */
typedef struct bo_side {
    const bo_call *call; /* only its layout is used */
    const float *array;
    const char *name; /* "q" or "k" */
    size_t heads;     /* heads of the array */
    size_t first, count, dim;
    bool keys;
    const bo_row_transform *transforms; /* one per key head: rows are transformed; NULL: rows are unchanged */
    size_t width;                       /* numbers per transformed row */
    size_t step;                        /* distance between rows of a head in tokens: 1 takes all */
} bo_side;

bo_side bo_side_queries(const bo_call *call, const float *q, size_t first_key_head, size_t key_heads);
bo_side bo_side_keys(const bo_call *call, const float *k, size_t first_key_head, size_t key_heads);
size_t bo_side_rows(const bo_side *side);
/* Copies at most `most` rows, evenly spaced over all. Returns their number. out: rows x width. */
size_t bo_side_sample(const bo_side *side, size_t most, float *out);
/* Copies `wanted` rows, evenly spaced over all; the first is at `offset` (in [0, 1)) of the spacing. If `wanted`
 * exceeds the number of rows, rows repeat. There must be at least one row. */
void bo_side_spread(const bo_side *side, size_t wanted, double offset, float *out);

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* Moments of √scale x over the rows x of a side. */
typedef struct bo_second_moments {
    double *mean;   /* width */
    double *second; /* width x width, symmetric: the mean of x xᵀ */
} bo_second_moments;

bo_status bo_second_moments_alloc(bo_context *context, size_t width, bo_second_moments *out); /* all zeros */
/* Computes the moments. BO_NUMERIC with the position if a row is not finite. Freed by bo_second_moments_free, also
 * after failure. */
bo_status bo_second_moments_measure(bo_context *context, const bo_side *side, double scale, bo_second_moments *out);
void bo_second_moments_free(bo_second_moments *moments);
/* Returns the sum of |mean|² of both sides over the sum of the traces of their second moments: 0 for centered data. */
double bo_second_moments_mean_share(size_t dim, const bo_second_moments *q, const bo_second_moments *k);
/* Computes the eigenvalues of the mean of both second moments, ascending, none negative. */
bo_status bo_second_moments_eigenvalues(bo_context *context, size_t dim, const bo_second_moments *q,
                                        const bo_second_moments *k, double *values);
/* Returns the mean of |x|². */
double bo_second_moments_norm(size_t dim, const bo_second_moments *moments);

/* ---- the distribution -------------------------------------------------------------------------------------------- */

/* Positive features of exp(x·y), x ~ N(0, Λ_q) and y ~ N(0, Λ_k) independent: over w ~ N(0, P⁻¹) with importance
 * weights, E[estimate²] is smallest for P = I - 2Λ_q(I + 2Λ_q)⁻¹ - 2Λ_k(I + 2Λ_k)⁻¹, since sqrt(E f(x, w)² E f(y, w)²)
 * times the standard normal density is that distribution (Farzam et al., arXiv 2603.04127, Theorem 3.2 for Λ_q = Λ_k;
 * Sernau et al., arXiv 2406.18802, for the principle). For a distribution N(0, C⁻¹) with the same eigenvectors
 * E[estimate²] is a constant times |C|^-½ |2P - C|^-½, infinite unless 2P > C. */
typedef struct bo_law {
    double *root;   /* dim x dim, symmetric: Σ*^½, so that w = root · standard normal */
    double *shape;  /* dim x dim, symmetric: C, the precision after clipping */
    double log_det; /* log |C| */
    size_t clipped; /* number of eigenvalues of P that were below BO_LEAST_PRECISION and were raised to it */
    bool isotropic_finite, proposal_finite;
    double log_gain; /* log of E[estimate²] for w ~ N(0, I) divided by that for N(0, C⁻¹); NAN if both are infinite */
} bo_law;

#define BO_LEAST_PRECISION 0.05
/* Data with at most this mean_share is treated as centered, which the distribution assumes. */
#define BO_CENTERED_SHARE 0.2

/* Computes the symmetric factor R (dim x dim) of the proposal N(0, R Rᵀ) for data with these moments (of √s q and √s
 * k). */
bo_status bo_proposal_root(bo_context *context, bo_proposal proposal, size_t dim, const bo_second_moments *q,
                           const bo_second_moments *k, double *root);

bo_status bo_law_make(bo_context *context, size_t dim, const double *lambda_q, const double *lambda_k, bo_law *out);
void bo_law_free(bo_law *law);

#endif
