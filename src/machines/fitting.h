/* A fit in progress, for fit.c and fitting.c. */
#ifndef BO_MACHINES_FITTING_H
#define BO_MACHINES_FITTING_H

#include "internal.h"

#define BO_WHY_STREAM "a stream is summed up in the Gram matrix of its features" /* report.why_solver */

/* Invariants: scaler, targets, phi and kept are made by bo_fitting_prepare and never change; moments.size is 0 until
 * bo_fitting_open_moments. */
struct bo_fitting {
    bo_machine_desc desc; /* pointers cleared */
    bo_scaler scaler;
    bo_targets targets;
    bo_features *phi;
    float quantum; /* of bo_row_map */
    bo_moments moments;
    bo_samples kept; /* training rows on which leave-one-out measures the machine's error */
    bo_machine_report report;
    double seconds;
    bool report_progress;
};

/* The map's descriptor with what only fitting knows. */
bo_features_desc bo_fitting_map(const bo_machine_desc *desc, size_t dim);
/* Everything before the first row is learned: scaling, targets, γ and λ, the map. `rows`: how many will come. */
bo_status bo_fitting_prepare(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, size_t rows,
                             bo_fitting **out);
bo_status bo_fitting_open_moments(bo_context *context, bo_fitting *fitting);
bo_row_map bo_fitting_front(const bo_fitting *fitting);
/* These samples, with everything else as the fit has it. */
bo_fit_problem bo_fitting_problem(const bo_fitting *fitting, const bo_samples *samples);
/* A machine with report, scaling and map, but no solution yet. */
bo_status bo_fitting_give(bo_context *context, bo_fitting *fitting, bo_machine **out);
/* Descriptor and samples make sense together. */
bo_status bo_machine_check(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples);

#endif
