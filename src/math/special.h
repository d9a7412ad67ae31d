/* Special functions that libm does not provide. */
#ifndef BO_MATH_SPECIAL_H
#define BO_MATH_SPECIAL_H

#include <stddef.h>

/* Returns Φ(x), the distribution function of N(0, 1), with full relative accuracy in the lower tail. */
double bo_normal_cdf(double x);
/* Returns Φ⁻¹(p) with a relative error below 1e-14 for 1e-300 <= p < 1 (where erfc is not subnormal); -inf and inf at 0
 * and 1, NaN outside [0, 1]. Near p = 1 the rounding of p limits the accuracy: use -Φ⁻¹(1 - p) if 1 - p is known. */
double bo_normal_quantile(double p);
/* Returns the quantile of Student's t distribution with freedom >= 1 degrees of freedom, with an absolute error below
 * 1e-9 for p from 1e-6 to 1 - 1e-6; -inf and inf at 0 and 1, NaN outside [0, 1]. */
double bo_student_quantile(double p, int freedom);

/* Returns P(Σ λ_i z_i² > x) for independent z_i ~ N(0, 1) and weights λ_i >= 0, with a relative error below 1e-12, and
 * 1e-10 for thousands of weights, also for tiny probabilities; NaN if a weight is negative or not finite, or all are so
 * small or large that their squares are 0 or infinite. Equal weights that follow each other cost as much as one. */
double bo_chi_square_tail(size_t count, const double *weights, double x);

#endif
