/* The search of γ and λ: search.c. */
#ifndef BO_MACHINES_SEARCH_H
#define BO_MACHINES_SEARCH_H

#include "leave_one_out.h"
#include "solvers.h"

typedef struct bo_search_choice {
    double gamma, lambda;
    double score;    /* see bo_fit_report.search_score */
    double spectrum; /* largest eigenvalue of ZᵀZ expected for all rows */
    double seconds;
} bo_search_choice;

/* Chooses γ and λ if the descriptor does not set them. `rows` is the number of rows of the final fit. */
bo_status bo_search(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *map,
                    const bo_scaler *scaler, const bo_targets *targets, const bo_samples *samples, size_t rows,
                    bo_search_choice *out);
/* The γ at which the kernel of two typical rows is about e⁻¹: the median heuristic, or 1/E|x|² for kernels of x·y.
 * `scaled` has at least 2 rows. */
bo_status bo_typical_gamma(bo_context *context, const bo_features_desc *map, const bo_samples *scaled, uint64_t seed,
                           double *out);
/* The best λ near problem->penalty.lambda by bo_ridge_score, from moments of all rows and features: three
 * factorizations, or a few more if λ moves. spectrum: the largest eigenvalue. */
bo_status bo_search_lambda(bo_context *context, const bo_fit_problem *problem, bo_moments *moments, double spectrum,
                           double *lambda);
/* The best λ near *lambda for the exact kernel of all rows, which bo_loo_kernel has computed. */
bo_status bo_search_lambda_exact(bo_context *context, const bo_loo *loo, double *lambda);

/* γ, λ and the mean squared error of left-out rows. */
typedef struct bo_search_point {
    double gamma, lambda, error;
} bo_search_point;

/* Chooses γ and λ with the closed form of the kernel on scaled rows, near the given point; from a grid if its γ is 0.
 * `light`: with half of the effort, λ is not searched but follows γ. Values that the descriptor sets are not changed.
 * On return `loo`, which the caller frees, has the kernel matrix of the last γ. */
bo_status bo_search_closed_form(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *map,
                                const bo_targets *targets, const bo_samples *scaled, bool light, bo_search_point *best,
                                bo_loo *loo);

/* Maximum depth of networks in a search of the depth; the minimum is 1. */
enum { BO_DEPTHS_SEARCHED = 3 };

/* The search: rows of its first stage, rows up to which its second stage is exact, and maximum features of the smaller
 * machines that it fits beyond. */
enum { BO_COARSE_ROWS = 400, BO_EXACT_ROWS = 2000, BO_SEARCH_FEATURES = 4096 };

#endif
