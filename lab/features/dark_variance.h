/* The variance of positive features on Gaussian queries and keys, by anisotropy, and the thresholds at which it becomes
 * infinite. */
#ifndef BO_LAB_FEATURES_DARK_VARIANCE_H
#define BO_LAB_FEATURES_DARK_VARIANCE_H

#include "../experiment.h"

/* Logarithms of E[estimate²] for the estimate of exp(q·k) from one frequency, q, k ~ N(0, Λ) with eigenvalues λ
 * (INFINITY if it is infinite), and of E[exp(q·k)²] (2603.04127, with the precision I - 4Λ(I + 2Λ)⁻¹ of the optimal
 * distribution). */
double lab_dark_log_isotropic(size_t dim, const double *lambda); /* -½ Σ log(1 + 2λ)(1 - 6λ): finite below 1/6 */
double lab_dark_log_optimal(size_t dim, const double *lambda);   /* -Σ log(1 - 2λ): finite below 1/2 */
double lab_dark_log_kernel(size_t dim, const double *lambda);    /* -½ Σ log(1 - 4λ²) */

/* Records the tables "variance" and "threshold" and their claims. */
bo_status lab_dark_variance(lab_run *run);
bo_status lab_dark_thresholds(lab_run *run);

#endif
