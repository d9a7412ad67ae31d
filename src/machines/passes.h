/* Passes over rows that compute the features again each time, shared by CG, SGD and the logistic loss. */
#ifndef BO_MACHINES_PASSES_H
#define BO_MACHINES_PASSES_H

#include "left_out.h"
#include "samples.h"
#include "solvers.h"

/* One block of rows at a time: features (centered, weighted by √w) and encoded targets. */
typedef struct bo_row_pass {
    const bo_fit_problem *problem;
    size_t features, outputs, block;
    const double *center; /* features */
    float *z;             /* block x features */
    float *scores;        /* block x outputs */
    float *kept;          /* the features of all rows, filled in the first pass, if memory allows */
    bool filled;
    bool unweighted; /* leave √w out */
} bo_row_pass;

/* Allocates buffers. Keeps all features in memory if they take at most `memory` bytes. */
bo_status bo_pass_create(bo_context *context, const bo_fit_problem *problem, const double *center, double memory,
                         bo_row_pass *out);
void bo_pass_free(bo_row_pass *pass);
/* Features of rows [first, first + rows) into *z (stride features): centered and weighted. */
bo_status bo_pass_features(bo_context *context, bo_row_pass *pass, size_t first, size_t rows, const float **z);
/* Weighted means of features (center, may be NULL) and encoded targets, total weight, |z_j|² and the largest |z|² from
 * one pass. Zero means when the problem has no intercept. */
bo_status bo_pass_means(bo_context *context, const bo_fit_problem *problem, double *center, double *squares,
                        double *mean, double *weight, double *largest_norm);
/* Predictions of held-out rows, for solvers without leverages. */
bo_status bo_pass_held_out(bo_context *context, const bo_machine *machine, const bo_targets *targets,
                           const bo_samples *held_out, bo_left_out *out);

/* Holds out at most `max_rows` rows (at most a tenth), solves with the remaining rows, and measures the error on the
 * held-out rows. Rows are copied. */
typedef bo_status (*bo_solver_fn)(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
bo_status bo_solve_held_out(bo_context *context, const bo_fit_problem *problem, size_t max_rows, bo_solver_fn solve,
                            bo_machine *machine);

#endif
