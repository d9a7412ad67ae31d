/* Fitted machines: machine.c, committee.c, calibrate.c, conformal.c, target_scale.c. The steps of a fit:
 *
 *   samples (samples.c) -> scaling (scaler.c) and features (row_map.c) -> moments and ridge system (ridge.c) -> machine
 *   (machine.c)
 *
 * check.c checks the settings and the rows; estimate.c estimates the cost beforehand and resolves loss and solver;
 * prepare.c has the steps before the first row; streaming.c runs these steps over streams and fit.c in memory. Choices:
 * search.c chooses γ and λ with leave_one_out.c; tune.c chooses kernel, scaling and metric; target_scale.c chooses
 * between targets and their logarithms. Other systems: dual.c, exact_cg.c (with strips.c and pivots.c), cg.c, sgd.c,
 * adam.c and logistic.c; the last four share passes.c. Predictions: predict.c predicts with random features, exact.c
 * with exact kernels, committee.c with several of them; calibrate.c turns scores into probabilities and measures the
 * validation error; conformal.c and deviation.c give intervals. file.c saves and loads machines. */
#ifndef BO_MACHINES_MACHINE_H
#define BO_MACHINES_MACHINE_H

#include "../device/copies.h"
#include "intervals.h"
#include "left_out.h"

/* ---- the machine ------------------------------------------------------------------------------------------------- */

typedef enum bo_uncertainty {
    BO_UNCERTAINTY_NONE = 0,
    BO_UNCERTAINTY_PRIMAL = 1, /* factor: R(R+1)/2 floats */
    BO_UNCERTAINTY_DUAL = 2,   /* the training rows and the factor of their kernel matrix */
    BO_UNCERTAINTY_EXACT = 3   /* the factor of the exact kernel matrix; phi has the training rows */
} bo_uncertainty;

/* Invariant: exactly the fields of the given kind of uncertainty are set. */
struct bo_machine {
    /* GPU copies of the arrays for predictions and for deviations, and a version number that changes with the arrays */
    bo_device_copies *copies, *deviation_copies;
    uint64_t version;
    bo_fit_report report; /* why_solver points to a constant, or to `why` after loading */
    char why[160];
    bo_scaler scaler;
    bo_features *phi;
    double quantum;    /* of bo_row_map */
    double *beta;      /* features x outputs, in the units of y */
    double *intercept; /* outputs */
    double *center;    /* features: subtracted from φ before β; zero without intercept */
    bo_intervals intervals;
    /* logarithms of targets: the factor that corrects the mean of exp(f), and the bounds of f; NULL otherwise */
    double *smearing; /* outputs */
    double *reach;    /* outputs x 2 */
    /* predictive variance for noise of equal size everywhere: noise² (noise: outputs, of a row of weight 1) *
     * (1/mean_weight + inverse_weight + φᵀ(ZᵀZ + D)⁻¹φ), for a new row of mean weight */
    bo_uncertainty uncertainty;
    double *noise; /* standard deviations, whose squares may be outside the range of double */
    double inverse_weight, mean_weight;
    float *factor;            /* PRIMAL, packed lower rows */
    size_t train_rows;        /* DUAL, EXACT */
    float *train_x;           /* DUAL: scaled inputs */
    float *train_root_weight; /* DUAL, EXACT */
    double *train_factor;     /* DUAL, EXACT: packed lower rows of chol(Zc D⁻¹ Zcᵀ + I) */
    double *penalty;          /* DUAL: D, one per feature */
    /* probabilities: softmax(sharpness * score + offset) */
    double sharpness;
    double *offset; /* classes */
    /* A committee: predictions are the weighted mean of this machine and of the other members. share[0] is the weight
     * of this machine. Each member has an exact kernel and no further members. */
    size_t other_members_count;
    bo_machine **other_members;
    double *share; /* other_members_count + 1; NULL without other members */
};

bo_row_map bo_machine_row_map(const bo_machine *machine);
/* Without arrays and report; NULL: see the context's error. */
bo_machine *bo_machine_allocate(bo_context *context);
bo_status bo_machine_create(bo_context *context, const bo_fit_report *report, bo_machine **out);
/* Converts β, intercept and center of the system to the units of the data and stores them. */
bo_status bo_machine_set_solution(bo_context *context, bo_machine *machine, const bo_targets *targets,
                                  const double *beta, const double *intercept, const double *center);
/* Frees the arrays that only standard deviations need. */
void bo_machine_free_uncertainty(bo_machine *machine);
/* Copies the kernel, its parameters except γ, the function and the draw of a map into the report. */
void bo_report_map(bo_fit_report *report, const bo_features_desc *map);
/* Copies metrics of validation rows into the report. */
void bo_report_validation(bo_fit_report *report, const bo_metrics *metrics);

/* ---- committees -------------------------------------------------------------------------------------------------- */

/* Committees (committee.c): at most BO_COMMITTEE members. */
enum { BO_COMMITTEE = 3 };
/* Joins machines that were fitted to the same rows and whose left-out predictions are given. Moves the machines that it
 * uses out of the array; the caller destroys the remaining machines and the left-out predictions, which are changed. */
bo_status bo_committee_join(bo_context *context, const bo_targets *targets, size_t count, bo_machine **machines,
                            bo_left_out *left_out, bo_machine **out);

/* ---- validation, intervals, targets ------------------------------------------------------------------------------ */

/* Noise variance (regression) or calibration (classes), and the validation error, from left-out rows. */
bo_status bo_machine_calibrate(bo_context *context, bo_machine *machine, const bo_targets *targets,
                               const bo_left_out *left_out);
/* Deviations and scores from left-out rows of a regression: conformal.c. Needs machine->noise. */
bo_status bo_intervals_fit(bo_context *context, const bo_targets *targets, const bo_left_out *left_out,
                           bo_machine *machine);
/* Resolves AUTO to LINEAR or LOG: target_scale.c. */
bo_status bo_target_scale_choose(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                                 bo_target_scale *out);
/* Sets the smearing factors and bounds of a machine for logarithms, from left-out rows. */
void bo_target_scale_fit(const bo_targets *targets, const bo_left_out *left_out, bo_machine *machine);

#endif
