/* Special functions that libm lacks. */
#ifndef BO_MATH_SPECIAL_H
#define BO_MATH_SPECIAL_H

/* Φ(x), the distribution function of N(0, 1), with full relative accuracy in the lower tail. */
double bo_normal_cdf(double x);
/* Φ⁻¹(p), relative error below 1e-14 for 1e-300 <= p < 1 (where erfc is not subnormal); -inf and inf at 0 and 1, NaN
 * outside. Near p = 1 the
 * argument itself is the limit: ask for -Φ⁻¹(1 - p) when 1 - p is known. */
double bo_normal_quantile(double p);

#endif
