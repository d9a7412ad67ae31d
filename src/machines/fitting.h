/* The steps that streaming fits and fits in memory share: prepare.c and streaming.c. */
#ifndef BO_MACHINES_FITTING_H
#define BO_MACHINES_FITTING_H

#include "solvers.h"
#include "tune.h"

#define BO_WHY_STREAM "streams are summed into the Gram matrix of the features" /* report.why_solver */

/* Invariants of a machine's fit: scaler, targets, phi and kept are set before the first row is added and do not change;
 * moments.size is 0 for solvers that do not use moments. */
struct bo_fitting {
    struct bo_embedding_sums *embedding; /* a fit of an embedding, which has no other members; NULL: of a machine */
    bo_machine_desc desc;                /* pointers cleared */
    bo_scaler scaler;
    bo_targets targets;
    bo_features *phi;
    float *length_scales; /* of the columns of scaled rows, if the descriptor has some and columns are dropped */
    float quantum;        /* of bo_row_map */
    int metric_iterations;
    double optimism;       /* of bo_fit_problem */
    bo_left_out *left_out; /* of bo_fit_problem */
    bo_moments moments;
    bo_samples kept; /* training rows on which leave-one-out measures the machine's error */
    bo_fit_report report;
    double seconds;
    bool report_progress;
};

bo_row_map bo_fitting_row_map(const bo_fitting *fitting);
bo_fit_shape bo_samples_shape(const bo_samples *samples);
/* Everything before the first row is added: scaling, targets, γ and λ, the map. `rows`: the expected number of rows.
 * `setting`: the result of bo_tune, or NULL. */
bo_status bo_fitting_prepare(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, size_t rows,
                             const bo_setting *setting, bo_fitting **out);
/* The problem of this fit with these samples. */
bo_fit_problem bo_fitting_problem(const bo_fitting *fitting, const bo_samples *samples);
/* Creates the moments, to which bo_fitting_add adds rows. */
bo_status bo_fitting_open(bo_context *context, bo_fitting *fitting);
/* A machine with the scaling and the map of the fit, without coefficients. */
bo_status bo_fitting_machine(bo_context *context, const bo_fitting *fitting, bo_machine **out);

#endif
