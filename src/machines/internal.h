/* Declarations shared by the files of src/machines. The steps of a fit:
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
#ifndef BO_MACHINES_INTERNAL_H
#define BO_MACHINES_INTERNAL_H

#include <bochner/machines.h>
#include "../base/base.h"
#include "../base/rng.h"
#include "../device/copies.h"
#include "device_sums.h"
#include "../io/sparse.h"
#include "../math/metric.h"
#include "intervals.h"

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Rows of inputs that were checked, dense or sparse, or some of them. */
typedef struct bo_input_view {
    size_t rows;
    const float *x; /* NULL: sparse */
    size_t ldx;
    bo_sparse sparse;
} bo_input_view;

/* The rows of a caller, which must have `dim` columns. */
bo_status bo_input_view_make(bo_context *context, const bo_inputs *inputs, size_t dim, bo_input_view *out);
/* BO_INVALID if a number of the rows [first, first + rows) is not finite. */
bo_status bo_input_view_check_finite(bo_context *context, const bo_input_view *inputs, size_t first, size_t rows,
                                     size_t dim);
/* Rows [first, first + rows) of the samples. */
bo_input_view bo_samples_inputs(const bo_samples *samples, size_t first, size_t rows);
static inline bo_input_view bo_input_view_slice(const bo_input_view *inputs, size_t first, size_t rows)
{
    if (!inputs->x) return (bo_input_view){.rows = rows, .sparse = bo_sparse_slice(&inputs->sparse, first, rows)};
    return (bo_input_view){.rows = rows, .x = inputs->x + first * inputs->ldx, .ldx = inputs->ldx};
}

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

/* s(x)_j = (x_j - mean_j) * factor_j, clamped to ±limit; factor 0 drops a constant column. QUANTILE: the normal
 * quantile of the rank of x_j among the knots of the column instead. Then the metric, if there is one, maps the row.
 *
 * Rows are first reduced by `shift`: a machine that was loaded without its schema takes the numbers of a table, but it
 * was fitted to their differences from the origins of the columns (src/io/origins.h).
 *
 * Sparse samples are fitted with kernels of differences, which do not change if s(0) is subtracted: the scaled rows are
 * s(x) - s(0), as sparse as x, and have only the columns that vary (`place`).
 *
 * Invariants: kind is not AUTO; limit >= 0; kept <= dim is the number of columns of scaled rows, the rank of the metric
 * if there is one; knots exist exactly if kind is QUANTILE; sparse rows have neither knots nor a metric; place exists
 * exactly if the scaler is for sparse rows, and has dim entries: an index below `kept`, or UINT32_MAX for a dropped
 * column. */
typedef struct bo_scaler {
    bo_scaling kind;
    size_t dim, kept;
    float *mean, *factor;
    uint32_t *place;
    double limit; /* 0: none */
    /* dim x BO_KNOTS, ascending in each column; descending: a column of two values, scaled like COLUMNS */
    float *knots;
    bo_metric metric; /* a NULL: none */
    double *origin;   /* of the rows of the fit: they are the numbers of a table minus it; NULL: not known */
    double *shift;    /* in float64, subtracted from rows that are scaled; NULL: nothing; never in a fit */
} bo_scaler;
enum { BO_KNOTS = 256 };

bo_status bo_scaler_fit(bo_context *context, bo_scaling kind, const bo_samples *samples, bo_scaler *out);
/* Logs which columns are constant. sampled: rows that the scaler was fitted to, of more; 0: all rows. schema: names of
 * the columns, or NULL. */
void bo_scaler_report(bo_context *context, const bo_scaler *scaler, size_t sampled, const bo_schema *schema);
/* Sets kept and place, for sparse rows or not; mean and factor must be set. */
bo_status bo_scaler_finish(bo_context *context, bool sparse, bo_scaler *scaler);
bo_status bo_scaler_copy(bo_context *context, const bo_scaler *scaler, bo_scaler *out);
/* For a file whose rows are read with `schema`; NULL: as they are. *out is what to subtract from them; NULL:
 * nothing. */
bo_status bo_scaler_shift_of_file(bo_context *context, const bo_scaler *scaler, const bo_schema *schema, double **out);
/* Of a file: `shift` is subtracted from rows that are read with `schema`, or NULL. Sets the origin, and for a caller
 * who does not know the schema (`raw`) the shift of rows that are read without it. */
bo_status bo_scaler_resolve(bo_context *context, const bo_schema *schema, bool raw, bo_scaler *scaler);
void bo_scaler_free(bo_scaler *scaler);
/* Replaces the metric by a copy; NULL: none. For dense rows. */
bo_status bo_scaler_set_metric(bo_context *context, bo_scaler *scaler, const bo_metric *metric);
/* Scaled rows in dense form: rows x kept. `out` may be equal to the inputs if there is no metric. */
bo_status bo_scaler_apply(bo_context *context, const bo_scaler *scaler, const bo_input_view *inputs, float *out);
/* Scaled sparse rows; released with bo_sparse_destroy. */
bo_status bo_scaler_apply_sparse(bo_context *context, const bo_scaler *scaler, const bo_sparse *x,
                                 bo_sparse_block **out);

/* ---- row map: from rows to features ------------------------------------------------------------------------------ */

/* Scaling, feature map and rounding: the steps before the linear system. */
typedef struct bo_row_map {
    const bo_scaler *scaler; /* NULL: the rows are scaled already */
    const bo_features *phi;
    float quantum; /* features are rounded to multiples of it, at most 127 of them; a power of two; 0: not rounded */
} bo_row_map;

/* Computes z (rows x features, stride ldz) from raw rows, without rounding, and with it. */
bo_status bo_row_map_project(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs, float *z,
                             size_t ldz);
bo_status bo_row_map_apply(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs, float *z,
                           size_t ldz);
/* The mean of the features of scaled rows, of BO_MACHINE_BLOCK rows at most: what is subtracted before features are
 * summed, because sums of small numbers are more accurate. */
bo_status bo_typical_features(bo_context *context, const bo_features *phi, size_t rows, const float *scaled, size_t ldx,
                              float *out);
/* Rounds z in place; q (rows x columns, stride ldq) receives the multiples, or NULL. */
void bo_round_features(bo_context *context, float quantum, size_t rows, size_t columns, float *z, size_t ldz, int8_t *q,
                       size_t ldq);
/* True for a valid quantum: 0, or a power of two below 1. */
bool bo_is_quantum(float quantum);
/* The quantum of a map with bounded features (sin/cos or cos with bias, without importance weights); otherwise 0. */
float bo_quantum_of(const bo_features_desc *resolved);
/* The precision of a fit: the requested one, or the lowest whose rounding is negligible beside λ. */
bo_status bo_choose_precision(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *resolved,
                              bool weighted, size_t rows, double lambda, double spectrum, bo_gram_precision *out);
/* The λ below which rounding to `quantum` would matter, for this number of rows. */
double bo_rounding_floor(float quantum, size_t rows);

/* ---- targets ----------------------------------------------------------------------------------------------------- */

/* The right-hand side of the linear system: regression targets or their logarithms, standardized by mean and deviation,
 * or ±1 for classes. */
typedef struct bo_targets {
    size_t classes, outputs;
    bool logarithms;          /* of positive targets; mean, deviation and range refer to the logarithms */
    double *mean, *deviation; /* regression, per output; NULL for classes */
    double *range;            /* regression: outputs x 2: the smallest and the largest */
    float *class_weight;      /* per class, or NULL */
} bo_targets;

bo_status bo_targets_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, bo_targets *out);
void bo_targets_free(bo_targets *targets);
/* Checks that the standardized targets of all rows are in the range of float32. */
bo_status bo_targets_in_range(bo_context *context, const bo_targets *targets, const bo_samples *samples);
/* Column t of the right-hand side for a row with targets y. */
float bo_targets_value(const bo_targets *targets, const double *y, size_t t);
/* sqrt of the weight of row i: sample weight times class weight. */
float bo_targets_root_weight(const bo_targets *targets, const bo_samples *samples, size_t row);

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
/* The upper triangle of G (size x size) in memory of the host, until it is closed; `changed`: the moments take it
 * over. */
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
    double rows;               /* rows of positive weight, the count for GCV */
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

/* ---- leave-one-out on a few training rows ------------------------------------------------------------------------ */

/* Leave-one-out predictions and leverages of `rows` training rows. */
typedef struct bo_left_out {
    size_t rows, outputs;
    double *prediction; /* rows x outputs, for standardized targets */
    double *truth;      /* rows x outputs */
    double *leverage;   /* rows: h_ii */
    double *weight;     /* rows: sample weight times class weight */
    int *label;         /* rows: class, or NULL */
    /* Σ w of the rows of the fit, if these rows are among them and it has an intercept; otherwise 0. Leaving a row out
     * of the mean of the targets moves its prediction away from its target, by this share of its error. */
    double fit_weight;
    double inflation; /* errors were multiplied by it (bo_left_out_inflate) */
    size_t columns_count;
    double *columns; /* rows x columns_count: a few features, for deviations; or NULL */
} bo_left_out;

bo_status bo_left_out_create(bo_context *context, size_t rows, size_t outputs, bool labels, bo_left_out *out);
void bo_left_out_free(bo_left_out *left_out);
/* Multiplies all errors. */
void bo_left_out_inflate(bo_left_out *left_out, double factor);
bo_status bo_ridge_left_out(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                            const bo_targets *targets, const bo_samples *samples, bool intercept, bo_left_out *out);

/* Adds the columns of regression rows, in their order, for deviations: conformal.c. */
bo_status bo_left_out_columns(bo_context *context, const bo_row_map *row_map, const bo_samples *samples,
                              bo_left_out *left_out);
/* bo_ridge_left_out for many rows, a block at a time, with columns. */
bo_status bo_ridge_left_out_blocks(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                                   const bo_targets *targets, const bo_samples *samples, bool intercept,
                                   bo_left_out *out);
/* Rows of a block. */
enum { BO_LEFT_OUT_BLOCK = 1024 };

/* Mean log loss of classes from left-out scores, calibrated on the same rows. */
bo_status bo_left_out_log_loss(bo_context *context, const bo_left_out *left_out, double *loss);

/* Cross-validation score of a solved system, summed over outputs: GCV times the ratio of exact leave-one-out to GCV on
 * the rows of `probe`. GCV replaces every leverage by the mean leverage and misses the few rows that are interpolated;
 * the ratio corrects this. */
bo_status bo_ridge_score(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                         const bo_targets *targets, const bo_samples *probe, bool intercept, double *score);

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
/* bo_machine_predict for rows that were checked. */
bo_status bo_machine_predict_view(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                  const bo_prediction *out);
/* The average gradient outer product, G = mean over the rows of Σ_t ∇f_t ∇f_tᵀ (bo_machine_gradients), in blocks of
 * rows. Writes the `dim` numbers G_jj and G (dim x dim); either may be NULL. BO_INVALID without rows. */
bo_status bo_machine_gradient_products(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                       double *diagonal, double *matrix);
/* Predictions in the units of beta, which are logarithms if the targets are, and deviations s(x), or NULL. */
bo_status bo_machine_predict_plain(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                   double *mean, double *deviation);
/* The same for a machine with an exact kernel: exact.c. */
bo_status bo_exact_predict(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, double *mean,
                           double *std);
/* Scores in the units of y from a block of features: mean (rows x outputs). */
bo_status bo_machine_scores(bo_context *context, const bo_machine *machine, size_t rows, const float *z, size_t ldz,
                            double *mean);
/* (φ - center) √w / D of the training rows of a machine with uncertainty DUAL (train_rows x features), `block` rows at
 * a time. */
bo_status bo_machine_train_features(bo_context *context, const bo_machine *machine, size_t block, double *out);
/* Committees (committee.c): at most BO_COMMITTEE members. */
enum { BO_COMMITTEE = 3 };
/* Joins machines that were fitted to the same rows and whose left-out predictions are given. Moves the machines that it
 * uses out of the array; the caller destroys the remaining machines and the left-out predictions, which are changed. */
bo_status bo_committee_join(bo_context *context, const bo_targets *targets, size_t count, bo_machine **machines,
                            bo_left_out *left_out, bo_machine **out);
/* Replaces the predictions of the leader by the predictions of the committee, if there is one. */
bo_status bo_committee_mean(bo_context *context, const bo_machine *machine, const bo_input_view *inputs, double *mean);
/* Frees the arrays that only standard deviations need. */
void bo_machine_free_uncertainty(bo_machine *machine);
/* Converts β, intercept and center of the system to the units of the data and stores them. */
bo_status bo_machine_set_solution(bo_context *context, bo_machine *machine, const bo_targets *targets,
                                  const double *beta, const double *intercept, const double *center);
/* Noise variance (regression) or calibration (classes), and the validation error, from left-out rows. */
bo_status bo_machine_calibrate(bo_context *context, bo_machine *machine, const bo_targets *targets,
                               const bo_left_out *left_out);
/* Deviations and scores from left-out rows of a regression: conformal.c. Needs machine->noise. */
bo_status bo_intervals_fit(bo_context *context, const bo_targets *targets, const bo_left_out *left_out,
                           bo_machine *machine);
/* Multiplies standard deviations for noise of equal size by s(x). columns: rows x machine->intervals.columns. */
void bo_intervals_deviate(const bo_machine *machine, size_t rows, const double *columns, const double *mean,
                          double *std);
/* The ends of intervals from predictions and deviations of bo_machine_predict_plain. */
bo_status bo_intervals_apply(bo_context *context, const bo_machine *machine, size_t rows, double level,
                             const double *mean, const double *deviation, double *low, double *high);

/* Resolves AUTO to LINEAR or LOG: target_scale.c. */
bo_status bo_target_scale_choose(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                                 bo_target_scale *out);
/* Sets the smearing factors and bounds of a machine for logarithms, from left-out rows. */
void bo_target_scale_fit(const bo_targets *targets, const bo_left_out *left_out, bo_machine *machine);
/* Converts predictions in the units of beta, and ends of their intervals, to the units of the targets. */
void bo_target_scale_restore(const bo_machine *machine, size_t rows, double *mean);
void bo_target_scale_restore_ends(const bo_machine *machine, size_t rows, double *ends);
/* Copies the kernel, its parameters except γ, the function and the draw of a map into the report. */
void bo_report_map(bo_fit_report *report, const bo_features_desc *map);
/* Copies metrics of validation rows into the report. */
void bo_report_validation(bo_fit_report *report, const bo_metrics *metrics);

/* ---- the problem ------------------------------------------------------------------------------------------------- */

typedef struct bo_fit_problem { /* the input of every solver */
    const bo_machine_desc *desc;
    const bo_samples *samples;
    bo_row_map row_map;
    const bo_targets *targets;
    bo_penalty penalty;
    bool intercept;
    double optimism; /* left-out errors are multiplied by its root: settings were fitted to the same rows; at least 1 */
    bo_left_out
        *left_out; /* DUAL: receives the left-out predictions of all rows, which the caller frees; NULL: not needed */
} bo_fit_problem;

/* ---- search ------------------------------------------------------------------------------------------------------ */

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

/* True if λ is too small, relative to the largest eigenvalue, for float32 products. Their rounding is about 1e-7 per
 * entry and averages over rows, so it moves eigenvalues by about 1e-8 of the largest; the margin is two orders of
 * magnitude. */
static inline bool bo_needs_precision(double lambda, double spectrum)
{
    return lambda < 1e-6 * spectrum;
}

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
/* A seeded subset of at most `count` rows of the samples, scaled. */
bo_status bo_samples_scaled(bo_context *context, const bo_scaler *scaler, const bo_samples *samples, size_t count,
                            uint64_t seed, bo_samples *out);

/* ---- other solvers --------------------------------------------------------------------- */

bo_status bo_solve_dual(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
bo_status bo_solve_cg(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
/* CG with an exact kernel: exact_cg.c. Its bytes without the kernel matrix, and the bytes of the part of the kernel
 * matrix that is kept in memory if a fit may use `limit` bytes; the other part is computed again in each iteration. */
bo_status bo_solve_exact_cg(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
double bo_exact_cg_bytes(double rows, double outputs);
double bo_exact_cg_matrix(double rows, double dim, double outputs, double limit);
/* True if λ is too small for kernel values in float32, whose rounding errors move eigenvalues by about 1e-7 √n. */
static inline bool bo_exact_needs_precision(double lambda, double rows)
{
    return lambda > 0 && lambda * lambda < 9e-12 * rows;
}
/* Rows up to which the matrix of an exact kernel is factorized by default. */
enum { BO_FACTORIZED_ROWS = 4096 };
/* Rows up to which it is factorized if λ is too small for float32; beyond, λ is raised. */
enum { BO_FACTORIZED_MAX_ROWS = 8192 };
bo_status bo_solve_sgd(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
bo_status bo_solve_adam(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
bo_status bo_solve_logistic(bo_context *context, const bo_fit_problem *problem, bo_moments *moments,
                            bo_machine *machine);

/* Features of rows [first, first + rows) of the samples. */
bo_status bo_problem_features(bo_context *context, const bo_fit_problem *problem, size_t first, size_t rows, float *z,
                              size_t ldz);

/* On a device, fits use the primal solver and the ridge loss: sets these defaults. */
void bo_fit_for_device(bo_context *context, bo_machine_desc *desc);
/* Checks the descriptor and the samples of a fit: check.c. */
bo_status bo_fit_check(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples);
/* True if a fit uses the exact kernel of its rows instead of features: if the descriptor requests it (SECTIONS), or by
 * default for kernels of networks with at most as many rows as features, and for a kernel that the fit chooses
 * (choose_kernel) with at most BO_EXACT_MAX_ROWS dense rows. */
bool bo_fit_is_exact(const bo_machine_desc *desc, size_t rows, bool sparse, int threads);
enum { BO_EXACT_MAX_ROWS = 50000 };
/* Seconds to solve the system of an exact kernel. */
double bo_exact_seconds(double rows, double outputs, int threads);
/* Resolves the function and the number of features: exact kernel, landmarks or features, within the budget. */
void bo_fit_resolve_map(bo_context *context, const bo_fit_shape *shape, bo_machine_desc *desc);
/* There are at most as many landmarks as rows. */
void bo_fit_limit_landmarks(bo_machine_desc *desc, size_t rows);
static inline bool bo_is_sections(const bo_features *phi)
{
    return bo_features_describe(phi)->function == BO_FUNCTION_SECTIONS;
}
/* Depths of networks that are tried if the descriptor leaves the choice to the search: 1 to this one. */
enum { BO_DEPTHS_SEARCHED = 3 };
/* Features of a random map by default. */
enum { BO_FIT_FEATURES = 4096 };
/* The memory that a fit may use: the descriptor's limit, or three quarters of bo_process_memory. */
bo_memory_bound bo_fit_memory(const bo_machine_desc *desc);
/* The search: rows of its first stage, rows up to which its second stage is exact, and maximum features of the smaller
 * machines that it fits beyond. */
enum { BO_COARSE_ROWS = 400, BO_EXACT_ROWS = 2000, BO_SEARCH_FEATURES = 4096 };

/* ---- a fit in progress ------------------------------------------------------------------------------------------- */

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
/* From this number of columns on, frequencies are drawn independently. */
enum { BO_WIDE_COLUMNS = 16384 };
/* Rows that a fit keeps at most for validation, for the calibration of classes or for intervals of numbers, which need
 * more, and how many of them data-dependent maps use. */
enum { BO_KEPT_ROWS = 4096, BO_KEPT_ROWS_OF_CLASSES = 2048, BO_SAMPLED_ROWS = 2048 };
/* The descriptor of the map, with the defaults that fitting sets. */
bo_features_desc bo_fitting_map(const bo_machine_desc *desc, size_t dim);

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* Copies `count` rows of `samples`, given by `index`; bo_samples_free frees them. */
bo_status bo_samples_gather(bo_context *context, const bo_samples *samples, const size_t *index, size_t count,
                            bo_samples *out);
void bo_samples_free(bo_samples *samples);
/* Rows [first, first + rows) of the samples; nothing is copied. `view` receives the sparse rows, if they are sparse. */
bo_samples bo_samples_slice(const bo_samples *samples, size_t first, size_t rows, bo_sparse *view);
/* A seeded uniform subset of at most `count` rows. */
bo_status bo_samples_subset(bo_context *context, const bo_samples *samples, size_t count, uint64_t seed,
                            bo_samples *out);
bo_status bo_samples_check(bo_context *context, const bo_samples *samples);
/* Rows per block when features are computed; bounds scratch memory. */
enum { BO_MACHINE_BLOCK = BO_SIZE(2048, 8) };

#endif
