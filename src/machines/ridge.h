/* Sums over rows and the ridge system that they determine: ridge.c. */
#ifndef BO_MACHINES_RIDGE_H
#define BO_MACHINES_RIDGE_H

#include "device_sums.h"
#include "left_out.h"

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* Sums over rows of the outer product of [φ(s(x)), y, 1] √w with itself. Everything ridge needs: ZᵀZ, ZᵀY, YᵀY, the
 * sums of both, and the total weight. Moments of blocks, files and hosts can be added.
 * Invariant: gram is size x size, upper triangle; size = features + outputs + 1. It is NULL exactly if `device` has the
 * sums. */
typedef struct bo_moments {
    size_t features, outputs, size, rows;
    bo_gram_precision precision;
    double *gram;
    bo_device_sums *device;
} bo_moments;

/* For the features of this map; on the context's device if it has one. */
bo_status bo_moments_create(bo_context *context, const bo_row_map *row_map, size_t outputs, bo_gram_precision precision,
                            bo_moments *out);
void bo_moments_free(bo_moments *moments);
bo_status bo_moments_add(bo_context *context, bo_moments *moments, const bo_row_map *row_map, const bo_targets *targets,
                         const bo_samples *samples, bool report);
/* The upper triangle of G (size x size) in host memory, until it is closed; `changed`: the moments are updated from it.
 */
bo_status bo_moments_open(bo_context *context, const bo_moments *moments, double **gram);
bo_status bo_moments_close(bo_context *context, const bo_moments *moments, double *gram, bool changed);
/* Estimate of the largest eigenvalue of the centered ZᵀZ, by power iteration. */
bo_status bo_moments_spectrum(bo_context *context, const bo_moments *moments, bool intercept, double *largest);

/* ---- ridge ------------------------------------------------------------------------------------------------------- */

/* The penalty on β_j: λ + n noise² + dropout/(1 - dropout) |z_j|². */
typedef struct bo_penalty {
    double lambda, noise, dropout;
} bo_penalty;

/* out: one number per feature; weight is Σ w, squares_j is |z_j|², not centered. */
void bo_penalty_fill(const bo_penalty *penalty, double weight, size_t features, const double *squares, double *out);

/* A solved ridge system, for standardized targets. On a device, the moments own the factor of the latest system, and
 * `factor` is NULL. */
typedef struct bo_machine_ridge {
    size_t features, outputs;
    double *factor;            /* features x features, lower: L Lᵀ = centered ZᵀZ + D */
    const bo_moments *moments; /* on a device; otherwise NULL */
    double *beta;              /* features x outputs */
    double *intercept;         /* outputs; f = β·(φ - center) + intercept */
    double *center;            /* features */
    double weight;             /* Σ w */
    double rows;               /* number of rows of positive weight, for GCV */
    double freedom;            /* effective degrees of freedom, intercept included */
    double *rss;               /* outputs: residual sum of squares on the training rows */
    double gcv;                /* generalized cross-validation, summed over outputs */
} bo_machine_ridge;

bo_status bo_ridge_solve(bo_context *context, const bo_moments *moments, const bo_penalty *penalty, bool intercept,
                         uint64_t seed, bo_machine_ridge *out);
void bo_ridge_free(bo_machine_ridge *ridge);
/* X (features x m) := L⁻¹ X. */
bo_status bo_ridge_solve_lower(bo_context *context, const bo_machine_ridge *ridge, size_t m, double *x);
/* Copies L in packed rows: features (features + 1) / 2 floats. */
bo_status bo_ridge_pack_factor(bo_context *context, const bo_machine_ridge *ridge, float *packed);

/* ---- leave-one-out ----------------------------------------------------------------------------------------------- */

bo_status bo_ridge_left_out(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                            const bo_targets *targets, const bo_samples *samples, bool intercept, bo_left_out *out);
/* bo_ridge_left_out for many rows, a block at a time, with columns. */
bo_status bo_ridge_left_out_blocks(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                                   const bo_targets *targets, const bo_samples *samples, bool intercept,
                                   bo_left_out *out);
/* Cross-validation score of a solved system, summed over outputs: GCV times the ratio of exact leave-one-out to GCV on
 * the rows of `probe`. GCV replaces every leverage by the mean leverage and misses the few rows that are interpolated;
 * the ratio corrects this. */
bo_status bo_ridge_score(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                         const bo_targets *targets, const bo_samples *probe, bool intercept, double *score);

#endif
