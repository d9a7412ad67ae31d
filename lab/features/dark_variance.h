/* The variance of positive features on Gaussian queries and keys: by anisotropy, and where it becomes infinite. */
#ifndef BO_LAB_FEATURES_DARK_VARIANCE_H
#define BO_LAB_FEATURES_DARK_VARIANCE_H

#include "../experiment.h"

/* Of one frequency's estimate of exp(q·k), q, k ~ N(0, Λ) with eigenvalues λ: logarithms of E[estimate²], INFINITY
 * where it is infinite, and of E[exp(q·k)²] (2603.04127; with I - 4Λ(I + 2Λ)⁻¹ for the precision of the best law). */
double lab_dark_log_isotropic(size_t dim, const double *lambda); /* -½ Σ log(1 + 2λ)(1 - 6λ): finite below 1/6 */
double lab_dark_log_optimal(size_t dim, const double *lambda);   /* -Σ log(1 - 2λ): finite below 1/2 */
double lab_dark_log_kernel(size_t dim, const double *lambda);    /* -½ Σ log(1 - 4λ²) */

/* Record the tables "variance" and "threshold" and the claims that speak of them. */
bo_status lab_dark_variance(lab_run *run);
bo_status lab_dark_thresholds(lab_run *run);

#endif
