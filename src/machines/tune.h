/* The choice of kernel, scaling and metric for a fit: tune.c. */
#ifndef BO_MACHINES_TUNE_H
#define BO_MACHINES_TUNE_H

#include "samples.h"
#include "scaler.h"

/* A setting and its score.
 * Invariants: the scaler is for dense rows and includes the metric; gamma and lambda are positive. */
typedef struct bo_setting {
    bo_kernel kernel;
    bo_scaler scaler;
    double gamma, lambda;
    double score; /* mean squared error of left-out rows, for standardized targets */
    /* ratio of the squared error on held-out rows to the score, at least 1, from cross-validation on half of the rows
     */
    double optimism;
    double growth;  /* expected factor of the error with all rows instead of the rows of the score */
    int iterations; /* of the metric */
} bo_setting;

/* Chooses the `max_count` best settings, best first, on at most BO_TUNE_ROWS of the rows, with the closed form of the
 * kernels. The descriptor has the fixed settings: the kernel (unless choose_kernel), the scaling, γ, λ, the metric.
 * BO_UNSUPPORTED for kernels without gradients (metric). *count is at least 1. */
bo_status bo_tune(bo_context *context, const bo_machine_desc *desc, const bo_targets *targets,
                  const bo_samples *samples, size_t max_count, bo_setting *out, size_t *count);
void bo_setting_free(bo_setting *setting);
/* True if a fit chooses its kernel or metric: otherwise bo_search is enough. */
bool bo_tunes(const bo_machine_desc *desc, const bo_samples *samples);

/* Rows on which settings are compared, and on which the best of them are refined. */
enum { BO_SCREEN_ROWS = 800, BO_TUNE_ROWS = 2000 };
/* Up to this number of rows a fit joins several settings to a committee. With more rows, the best single setting is as
 * accurate. */
enum { BO_COMMITTEE_ROWS = 4096 };

#endif
