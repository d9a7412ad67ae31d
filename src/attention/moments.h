/* Moments of queries and keys, and the optimal normal distribution for drawing the frequencies of positive features. */
#ifndef BO_ATTENTION_MOMENTS_H
#define BO_ATTENTION_MOMENTS_H

#include <bochner/attention.h>

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* Moments of √scale x over rows x. */
typedef struct bo_second_moments {
    double *mean;   /* width */
    double *second; /* width x width, symmetric: the mean of x xᵀ */
} bo_second_moments;

bo_status bo_second_moments_alloc(bo_context *context, size_t width, bo_second_moments *out); /* all zeros */
void bo_second_moments_free(bo_second_moments *moments);
/* Returns the sum of |mean|² of both sides over the sum of the traces of their second moments: 0 for centered data. */
double bo_second_moments_mean_share(size_t dim, const bo_second_moments *q, const bo_second_moments *k);
/* Computes the eigenvalues of the mean of both second moments, ascending and non-negative. */
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
    size_t clipped; /* number of eigenvalues of P that were below BO_MIN_PRECISION and were raised to it */
    bool isotropic_finite, proposal_finite;
    double log_gain; /* log of E[estimate²] for w ~ N(0, I) divided by that for N(0, C⁻¹); NAN if both are infinite */
} bo_law;

#define BO_MIN_PRECISION 0.05
/* Data with at most this mean_share is treated as centered, which the distribution assumes. */
#define BO_CENTERED_SHARE 0.2

/* Computes the symmetric factor R (dim x dim) of the proposal N(0, R Rᵀ) for data with these moments (of √s q and √s
 * k). */
bo_status bo_proposal_root(bo_context *context, bo_proposal proposal, size_t dim, const bo_second_moments *q,
                           const bo_second_moments *k, double *root);

bo_status bo_law_make(bo_context *context, size_t dim, const double *lambda_q, const double *lambda_k, bo_law *out);
void bo_law_free(bo_law *law);

#endif
