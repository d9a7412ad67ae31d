/* The secular equation of a rank-one update: the eigenvalues λ of diag(d) + ρ z zᵀ solve
 *
 *     f(λ) = 1/ρ + Σ_j z_j² / (d_j - λ) = 0,   ρ > 0, d ascending, all z_j != 0.
 *
 * f increases from -∞ to ∞ between neighboring poles d_j, so there is one root right of each pole. */
#ifndef BO_MATH_SECULAR_H
#define BO_MATH_SECULAR_H

#include <stddef.h>

typedef struct bo_secular {
    size_t n;
    const double *poles, *weights; /* d; z² */
    double inverse;                /* 1/ρ */
    double total;                  /* Σ z² */
} bo_secular;

/* Returns root i, which is right of pole i, and the differences d_j - λ. They are computed from the distance to the
 * nearer pole and therefore accurate to a few units in the last place, however close λ is to a pole. */
double bo_secular_root(const bo_secular *secular, size_t i, double *differences);

#endif
