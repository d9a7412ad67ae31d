/* Exact leave-one-out of kernel ridge regression on a sample: leave_one_out.c. */
#ifndef BO_MACHINES_LEAVE_ONE_OUT_H
#define BO_MACHINES_LEAVE_ONE_OUT_H

#include "samples.h"

/* Exact leave-one-out of kernel ridge on a sample (leave_one_out.c). */
typedef struct bo_loo {
    size_t rows, outputs;
    size_t scored; /* bo_loo_point: the last rows, whose errors count; set before its first call (default: all) */
    bool intercept;
    double *kernel;  /* rows x rows: √w K √w, centered when intercept */
    double *targets; /* rows x outputs: √w y, centered when intercept */
    double *root;    /* rows: √w */
    double *mean;    /* rows: weighted means of the rows of K; 0 without intercept */
    double weight;   /* Σ w */
    double *work;    /* rows x rows */
    double *inverse; /* scored x scored, or NULL before the first bo_loo_point */
    double *solution;
} bo_loo;

bo_status bo_loo_create(bo_context *context, const bo_samples *scaled, const bo_targets *targets, bool intercept,
                        bo_loo *out);
void bo_loo_free(bo_loo *loo);
/* Fills the kernel matrix for this γ, from the closed form or from the features of the map. */
bo_status bo_loo_kernel(bo_context *context, bo_loo *loo, const bo_features_desc *map, double gamma, bool closed_form,
                        const bo_samples *scaled);
/* The error for each λ of the grid, from one eigendecomposition; *largest is the largest eigenvalue. */
bo_status bo_loo_grid(bo_context *context, bo_loo *loo, const double *lambda, size_t count, double *error,
                      double *largest);
/* The error for one λ, from one Cholesky factorization: faster than the grid for a few λ. */
bo_status bo_loo_point(bo_context *context, bo_loo *loo, double lambda, double *error);

#endif
