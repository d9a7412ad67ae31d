/** @file
 * Kernel machines: ridge regression and classification on random features.
 *
 * A fit solves one linear system in the features instead of an n x n kernel matrix, in memory or in one pass over a
 * stream. All settings have defaults that are chosen from the data.
 *
 *     bo_machine_desc desc = {.task = BO_TASK_REGRESSION};                 // zero: every default
 *     bo_samples train = {.rows = n, .dim = d, .targets = 1, .x = x, .y = y};
 *     bo_machine *machine;
 *     bo_machine_fit(context, &desc, &train, &machine);
 *     bo_prediction out = {.mean = mean, .low = low, .high = high};        // and std, probabilities, classes
 *     bo_machine_predict(context, machine, &(bo_inputs){.rows = m, .x = x_new}, &out);
 *     bo_machine_destroy(machine);
 *
 * With a fifth of the rows of a table held out for a test, as `bochner fit --holdout 0.2` does:
 *
 *     bo_data *train, *test;
 *     bo_metrics *metrics;
 *     bo_table_load(context, &(bo_table_desc){.data = {.path = "t.csv"}, .split = {.test = 0.2}}, &train, NULL,
 *                   &test);
 *     bo_samples samples;
 *     bo_data_get_samples(train, &samples);
 *     bo_machine_fit(context, &desc, &samples, &machine);
 *     bo_machine_create_metrics(context, machine, 0, &metrics);
 *     bo_machine_evaluate(context, machine, &(bo_inputs){.rows = test->rows, .x = test->x}, test->y, metrics);
 *     bo_metrics_summary summary;
 *     bo_metrics_report(metrics, &summary);
 *     printf("%g\n", summary.rmse);
 *
 * The model is f(x) = β·φ(s(x)) + b. s scales the inputs by statistics of the training data; φ has `features` random
 * features. β minimizes Σ_i w_i |f(x_i) - y_i|² + λ|β|², without a factor n. The intercept b is not penalized.
 *
 * **Rows to predict.** A machine that was fitted, or loaded with its schema, expects rows in the format of the training
 * rows: the output of bo_data_load() and of streams with the schema, which are differences from the origins of the
 * columns (`origins` of bo_schema_info; experimental: bo_origins_subtract()). A machine that was loaded without its
 * schema, or whose file has no schema, expects the unmodified numbers of the table and subtracts the origins. float32
 * represents these numbers with 24 bits.
 *
 * **Ownership.** The caller destroys machines and fittings. They keep no pointer to the samples. **Threads.** A machine
 * is immutable and may be used by several threads at once; a fitting needs exclusive access.
 */
#ifndef BOCHNER_MACHINES_H
#define BOCHNER_MACHINES_H

#include <bochner/base.h>
#include <bochner/data.h>
#include <bochner/features.h>
#include <bochner/metrics.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** A fitted kernel machine. */
typedef struct bo_machine bo_machine;

/* ---- describe ---------------------------------------------------------------------------------------------------- */

/** The loss of a fit. */
typedef enum bo_loss {
    /** LOGISTIC for classification if there are at least as many rows as features and the fit is in memory, by the
     * primal solver, without noise and dropout; otherwise RIDGE. */
    BO_LOSS_AUTO = 0,
    BO_LOSS_RIDGE = 1, /**< squared error; for classes one-vs-all with targets ±1 and calibrated probabilities */
    /** Multinomial logistic loss, for classification only: Σ w (log Σ_c exp f_c - f_y) + λ/2 |β|². Usually more
     * accurate than RIDGE, at several times the cost. */
    BO_LOSS_LOGISTIC = 2
} bo_loss;

/** The solver of a fit.
 *
 * CG and SGD hold out a tenth of the rows (at most 4096) to measure their error, to compute intervals and to calibrate
 * probabilities. These rows are not used to fit. With fewer than 200 rows, no rows are held out. CG with an exact
 * kernel (SECTIONS) fits all rows. To measure its error, it solves a second system without an eighth of them (at most
 * 2048). With fewer than 160 rows, there is no second system.
 */
typedef enum bo_solver {
    BO_SOLVER_AUTO = 0,   /**< chosen by problem size; bo_fit_report has the choice and its reason */
    BO_SOLVER_PRIMAL = 1, /**< Cholesky factorization of the R x R Gram matrix, R the number of features */
    BO_SOLVER_DUAL = 2,   /**< Cholesky factorization of the n x n kernel matrix: ZZᵀ for R > n, or exact (SECTIONS) */
    /** Preconditioned conjugate gradients: memory for 1024 rows of features instead of R². With LANDMARKS, on kernel
     * values and preconditioned with the landmarks, for many rows. With an exact kernel (SECTIONS) 2 n² bytes, or less:
     * the part of the kernel matrix that does not fit is computed in every iteration. */
    BO_SOLVER_CG = 3,
    BO_SOLVER_SGD = 4, /**< mini-batches of 256 rows, step size from the spectrum; as little memory as CG */
    /** Adam on the features, from zero, without λ: rate and number of steps are chosen on held-out rows, then all rows
     * are fitted. With the features of NTK it is the Adam-like limit of infinite width (docs/reference/machines.md). */
    BO_SOLVER_ADAM = 5
} bo_solver;

/** The scaling of the inputs. */
typedef enum bo_scaling {
    BO_SCALING_AUTO = 0, /**< COMMON if the inputs share one unit (bo_samples.common_unit), otherwise COLUMNS */
    /** Each column to mean 0 and standard deviation 1, clipped to ±5; constant columns are dropped. */
    BO_SCALING_COLUMNS = 1,
    BO_SCALING_COMMON = 2, /**< columns centered, then one factor for all columns: mean variance 1 */
    BO_SCALING_NONE = 3,   /**< no scaling */
    /** Each column to the normal quantile of its rank, for heavy tails; columns of two values as COLUMNS. Dense rows
     * only. */
    BO_SCALING_QUANTILE = 4
} bo_scaling;

/** The precision of the products that are summed into the Gram matrix. The sums are always float64. */
typedef enum bo_gram_precision {
    BO_GRAM_PRECISION_AUTO = 0, /**< the lowest precision whose rounding errors are negligible relative to λ */
    /** Features rounded to 8 bits (also in predictions), with exact integer products: several times as fast as float32.
     * For sin/cos and cos-with-bias features and rows of equal weight. The rounding acts like noise on the features, λ
     * = n σ²; AUTO chooses INT8 if that is below λ/40. */
    BO_GRAM_PRECISION_INT8 = 1,
    BO_GRAM_PRECISION_FLOAT32 = 2, /**< float32 */
    BO_GRAM_PRECISION_FLOAT64 = 3  /**< float64; needed if λ is below about 1e-6 of the largest eigenvalue */
} bo_gram_precision;

/** The metric M of a kernel of distances: |x - y| is replaced by ((x - y)ᵀ M (x - y))^½, after the scaling.
 *
 * A learned metric is the average outer product of the gradients of the fitted function, or a power of it, as in
 * recursive feature machines (arXiv 2212.13881): columns and directions along which the function does not change get
 * weight 0. It is learned on at most 2000 rows. The number of iterations is chosen by cross-validation: the metric is
 * first learned on half of the rows, as long as the error on the other half decreases. */
typedef enum bo_metric_choice {
    BO_METRIC_AUTO = 0,     /**< LEARN if the kernel is chosen (choose_kernel) and the rows are dense; otherwise NONE */
    BO_METRIC_NONE = 1,     /**< no metric */
    BO_METRIC_DIAGONAL = 2, /**< one weight per column */
    BO_METRIC_LEARN = 3     /**< a matrix; weights of columns for LAPLACIAN, whose 1-norm is a sum over columns */
} bo_metric_choice;
/** The scale on which regression targets are fitted. */
typedef enum bo_target_scale {
    /** LOG if all targets are positive, one of them is skewed to the right, and a small machine predicts the targets of
     * rows left out better with their logarithms (by 1% of the root mean square error); otherwise LINEAR. */
    BO_TARGET_SCALE_AUTO = 0,
    BO_TARGET_SCALE_LINEAR = 1, /**< the targets themselves */
    /** The logarithms of the targets, which must be positive. Predictions and intervals are converted to the units of
     * the targets: the mean of y is exp(f) times the mean of exp(error) over rows left out. */
    BO_TARGET_SCALE_LOG = 2
} bo_target_scale;

/** The settings of a fit. */
typedef struct bo_machine_desc {
    bo_task task;       /**< the task (default: by bo_samples.classes) */
    bo_loss loss;       /**< the loss (default: chosen) */
    bo_solver solver;   /**< the solver (default: chosen) */
    bo_scaling scaling; /**< the scaling of the inputs (default: chosen) */
    /** The feature map. `features` (default: 4096, or the number of features of an exact map; see
     * bo_machine_estimate()) and `gamma` (default: chosen) may be set; the draw and the other members are as in
     * features.h. The fit sets `dim`, `seed` and `sample`. */
    bo_features_desc features;
    /** Choose the kernel among RBF, LAPLACIAN, MATERN12 and MATERN32 by the leave-one-out error; `features.kernel` is
     * ignored. With at most 50000 dense rows that fit into memory the exact kernel is used instead of random features,
     * unless `features.features`, `features.function`, a loss, noise or dropout are set. */
    bool choose_kernel;
    bo_metric_choice metric; /**< the metric (default: learned if the kernel is chosen) */
    double lambda;           /**< regularization λ (default: chosen) */
    /** Seconds that the fit may take, approximately (default: no limit). The search stops when 60% of them are over;
     * the exact kernel is used if its system can be solved in the rest, otherwise `features.features` (default: 4096)
     * is halved until the fit is expected to end in time. */
    double budget;
    bool no_intercept; /**< fit without an intercept */
    double noise;      /**< standard deviation σ of noise added to the features, in expectation: λ += n σ² */
    double dropout;    /**< probability that a feature is dropped, in expectation: a ridge on the column norms */
    bool balanced;     /**< all classes have the same total weight */
    const float *class_weights;  /**< one weight per class, or NULL */
    bo_gram_precision precision; /**< precision of the Gram matrix (default: chosen) */
    size_t stream_rows;          /**< streams: expected number of rows (default: the number of rows of the sample) */
    /** bytes that a fit may use (default: three quarters of the memory of the process); decides between PRIMAL and
     * CG */
    size_t memory;
    uint64_t seed;                /**< seed of the features and of all random choices */
    bo_target_scale target_scale; /**< regression: the scale of the targets (default: chosen) */
    uint64_t reserved[4];         /**< must be zero */
} bo_machine_desc;

/** Rows to fit. */
typedef struct bo_samples {
    size_t rows;    /**< number of rows */
    size_t dim;     /**< number of input columns */
    size_t targets; /**< number of target columns; 1 for classification */
    /** Inputs, rows x dim, without gaps; finite numbers; NULL if they are sparse. float64 numbers:
     * bo_origins_subtract() (experimental). */
    const float *x;
    const double *y; /**< targets, rows x targets; for classification class indices 0…classes-1 */
    size_t classes;  /**< number of classes; 0: regression */
    /** One weight >= 0 per row; NULL: all 1. A row of weight k counts like k equal rows in the fit, and like one row
     * with 1/k of the noise variance in standard deviations. */
    const float *weights;
    bool common_unit; /**< all inputs have the same unit (bo_schema_info.common_unit) */
    /** The inputs as sparse rows instead of `x`, for shift-invariant kernels; NULL: dense. The result equals the result
     * for dense rows up to the draw of the frequencies: constant columns have no frequencies. */
    const bo_sparse *sparse;
    /** The schema that the rows were read with. It names the inputs in messages, and the rows are differences from its
     * origins (bo_schema_info). With it, bo_machine_save() without a schema is correct as well. NULL: messages number
     * the inputs, and the library does not know whether the rows are differences. */
    const bo_schema *schema;
    uint64_t reserved[3]; /**< must be zero */
} bo_samples;

/** Describes the rows of a table as samples.
 *
 * @param data       the table; it owns x and y and must outlive the samples
 * @param[out] out   the samples
 */
BO_API void bo_data_get_samples(const bo_data *data, bo_samples *out);

/* ---- fit, predict ------------------------------------------------------------------------------------------------ */

/** Fits a kernel machine.
 *
 * @param context    the context
 * @param desc       the settings
 * @param samples    the rows; not needed after the call
 * @param[out] out   the machine; release it with bo_machine_destroy()
 * @return BO_OK; BO_MEMORY, before any work, if the fit needs more memory than `desc->memory`; BO_INVALID if an input,
 *     target or weight is not finite, or a class is out of range (the message has the row); BO_UNSUPPORTED if loss,
 *     solver, precision and features do not fit together; BO_NUMERIC if the system cannot be solved (the message
 *     suggests a λ)
 */
BO_API bo_status bo_machine_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                                bo_machine **out);

/** Destroys a kernel machine.
 *
 * @param machine   the object, or NULL
 */
BO_API void bo_machine_destroy(bo_machine *machine);

/** The results of a prediction: arrays of the caller. Only arrays that are not NULL are computed.
 *
 * **Intervals** contain the true value with a given probability. They are conformal: errors of predictions of training
 * rows that were left out (see `bo_fit_report.validation_rows`) are divided by a deviation s(x), which is fitted to
 * them as a function of the prediction and of the row, and the quantiles of these ratios for rows with similar
 * predictions, times s(x), are added to the prediction. No distribution of the errors is assumed; rows are assumed to
 * be drawn like the training rows. Both ends have separate quantiles if at least 200 rows were left out. If there are
 * too few rows for a quantile, it is extrapolated with a t distribution, so that few rows give wide intervals.
 */
typedef struct bo_prediction {
    double *mean; /**< targets of a regression, scores of classes; rows x outputs */
    double *low;  /**< regression: lower ends of intervals, at most the mean; rows x outputs */
    double *high; /**< regression: upper ends of intervals, at least the mean; rows x outputs */
    double level; /**< the probability of the intervals, above 0 and below 1 (default: 0.95) */
    /** regression: standard deviations, including noise: the width of the 95% interval divided by 2 * 1.96, independent
     * of `level`; rows x outputs */
    double *std;
    int *classes; /**< classification: the class with the largest score, one index per row */
    /** classification: calibrated probabilities, which add up to 1 in each row; rows x classes */
    double *probabilities;
    uint64_t reserved[4]; /**< must be zero */
} bo_prediction;

/** Predicts rows.
 *
 * All results of a call come from one pass over the rows. Every machine predicts dense and sparse rows. A machine that
 * was fitted to dense rows converts sparse rows in small blocks.
 *
 * @param context   the context; progress is reported as "predicting"
 * @param machine   the machine
 * @param inputs  rows in the format of the training rows, or the unmodified numbers of the table if the machine was
 *     loaded without a schema (see above: rows to predict)
 * @param out       where the results are written; at least one array
 * @return BO_OK; BO_INVALID if an input is not finite, the rows do not have the columns of the fit, or `level` is not
 *     between 0 and 1; BO_UNSUPPORTED if standard deviations or intervals are requested from a classifier or from a
 *     machine without left-out rows (bo_fit_report.has_std), or classes or probabilities from a regression
 */
BO_API bo_status bo_machine_predict(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                                    const bo_prediction *out);

/** The settings and the results of a fit.
 *
 * Allocated by the library. Later versions may add members at the end.
 */
typedef struct bo_fit_report {
    bo_task task;                /**< regression or classification */
    bo_loss loss;                /**< the loss used */
    bo_solver solver;            /**< the solver used */
    bo_scaling scaling;          /**< the scaling used */
    size_t rows;                 /**< number of rows fitted */
    size_t dim;                  /**< number of input columns */
    size_t outputs;              /**< number of targets or classes */
    size_t classes;              /**< number of classes; 0: regression */
    size_t features;             /**< length of φ(x) */
    bo_kernel kernel;            /**< the kernel */
    bo_function function;        /**< the function */
    bo_draw draw;                /**< the draw */
    double gamma;                /**< γ used */
    double lambda;               /**< λ used */
    bo_gram_precision precision; /**< precision of the Gram matrix; FLOAT32 if there is no such matrix */
    double spectrum;             /**< largest eigenvalue of the Gram matrix, estimated */
    double search_seconds;       /**< seconds to choose γ and λ; NAN if the machine was read from a file */
    double fit_seconds;          /**< seconds of all other steps; NAN if the machine was read from a file */
    /** Root mean square error of the chosen γ and λ on rows left out, in units of the standard deviation of the targets
     * (for classes: of the ±1 scores); NAN if nothing was searched. */
    double search_score;
    double noise_std;              /**< regression: standard deviation of the residual noise, first target */
    int iterations;                /**< CG, SGD, logistic: number of iterations */
    double residual;               /**< CG: relative residual */
    bool has_std;                  /**< the machine can predict standard deviations and intervals */
    const char *why_solver;        /**< the reason for the solver, one sentence */
    bo_features_accuracy accuracy; /**< the accuracy report on training rows */
    /** Number of validation rows; 0: the validation error was not measured, and the members below are NAN.
     *
     * The validation error is in the units of the data. It is measured on leave-one-out predictions of training rows
     * (ridge with the PRIMAL and DUAL solvers) or on rows set aside (CG, SGD, ADAM, logistic). The same rows choose λ,
     * so that only an evaluation on other rows is unbiased. */
    size_t validation_rows;
    double validation_rmse;          /**< regression: `rmse` of bo_metrics_summary */
    double validation_r2;            /**< regression: `r2` of bo_metrics_summary */
    double validation_accuracy;      /**< classification: `accuracy` of bo_metrics_summary */
    double validation_log_loss;      /**< classification: `log_loss` of bo_metrics_summary */
    int depth;                       /**< NNGP, NTK: number of hidden layers */
    bo_hidden_activation activation; /**< NNGP, NTK: activation of the hidden layers */
    double weight_variance;          /**< NNGP, NTK: σ_w² */
    double bias_variance;            /**< NNGP, NTK: σ_b² */
    bo_metric_choice metric;         /**< the metric: NONE, DIAGONAL or LEARN */
    int metric_iterations;           /**< number of iterations that learned the metric */
    size_t members;                  /**< machines whose predictions are averaged; 0 or 1: one */
    bo_target_scale target_scale;    /**< regression: LINEAR or LOG; with LOG, `noise_std` refers to the logarithms */
    const double *beta; /**< coefficients β in the units of the targets, or of their logarithms; features x outputs */
} bo_fit_report;

/** Returns the report of a machine.
 *
 * @param machine   the machine
 * @return the report, owned by the machine
 */
BO_API const bo_fit_report *bo_machine_report(const bo_machine *machine);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/** Writes a machine to a safetensors file.
 *
 * For a regression fitted by DUAL the file includes the training rows, which standard deviations need. With an exact
 * kernel (function SECTIONS) it always includes them, because predictions need them.
 *
 * With the schema of the rows of the fit, `bochner predict` and bo_data_load() convert new tables as the machine
 * requires. Without a schema, columns are not converted: if bo_samples.schema of the fit had origins, the loaded
 * machine subtracts them.
 *
 * @param context   the context
 * @param machine   the machine
 * @param schema    the schema of the rows, to store with the machine, or NULL
 * @param sink      where to write
 * @return BO_OK; BO_IO if the file cannot be written; BO_UNSUPPORTED if the features are CUSTOM
 */
BO_API bo_status bo_machine_save(bo_context *context, const bo_machine *machine, const bo_schema *schema,
                                 const bo_sink *sink);

/** Reads a machine from a file.
 *
 * If the caller requests the schema, rows to predict must be read with it. If `schema` is NULL, they are the unmodified
 * numbers of the table, and the machine subtracts the origins of the stored schema.
 *
 * @param context       the context
 * @param source        the file
 * @param[out] out      the machine; release it with bo_machine_destroy()
 * @param[out] schema   the stored schema, NULL if there is none; release it with bo_schema_destroy(); or NULL
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is malformed or not a machine; BO_VERSION if a newer
 *     version wrote it
 */
BO_API bo_status bo_machine_load(bo_context *context, const bo_source *source, bo_machine **out, bo_schema **schema);

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/** Creates empty metrics for the predictions of a machine.
 *
 * @param context    the context
 * @param machine    the machine
 * @param points     number of predictions to keep for plots, the median error and the AUC (bo_metrics_desc.points)
 * @param[out] out   the metrics; release them with bo_metrics_destroy()
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_machine_create_metrics(bo_context *context, const bo_machine *machine, size_t points,
                                           bo_metrics **out);

/** Predicts rows and adds the results to metrics. Progress is reported as "testing".
 *
 * @param context           the context
 * @param machine           the machine
 * @param inputs            the rows
 * @param y                 true values: rows x targets, or one class index per row
 * @param[in,out] metrics   metrics from bo_machine_create_metrics()
 * @return as bo_machine_predict(); BO_INVALID if a class is out of range
 */
BO_API bo_status bo_machine_evaluate(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                                     const double *y, bo_metrics *metrics);

/* ==== Advanced ==================================================================================================== */

/* ---- before and after a fit -------------------------------------------------------------------------------------- */

/** The size of a fit. A member that is 0 is not known yet; the cost is then a lower bound. */
typedef struct bo_fit_shape {
    size_t rows;          /**< number of rows */
    size_t dim;           /**< number of input columns */
    size_t outputs;       /**< number of classes or targets */
    size_t nonzeros;      /**< sparse rows: number of stored values; 0: dense rows */
    uint64_t reserved[4]; /**< must be zero */
} bo_fit_shape;

/** The cost of a fit and the settings that the defaults select. */
typedef struct bo_fit_cost {
    size_t features;        /**< length of φ(x) */
    bo_loss loss;           /**< the loss that AUTO selects */
    bo_solver solver;       /**< the solver that AUTO selects */
    const char *why_solver; /**< the reason for the solver, one sentence */
    bool searches_gamma;    /**< γ is not set and will be searched */
    bool searches_lambda;   /**< λ is not set and will be searched */
    size_t bytes;           /**< maximum memory, including the rows */
    double operations;      /**< floating-point operations, including the search */
    double seconds;         /**< approximate seconds with the threads of this context on a recent processor */
    bool exact;             /**< the exact kernel of the rows is used instead of features (function SECTIONS) */
    uint64_t reserved[4];   /**< must be zero */
} bo_fit_cost;

/** Estimates the cost of a fit and checks its memory against the limit.
 *
 * bo_machine_fit() and bo_fitting_create() do the same before any work. A stream (`desc->stream_rows` > 0) is fitted by
 * the primal solver; then `rows` is the number of rows of its sample.
 *
 * @param context    the context
 * @param desc       the settings; `task` distinguishes classes from numbers
 * @param shape      the size of the data
 * @param[out] out   the cost
 * @return as bo_machine_fit(); BO_MEMORY if the fit needs more memory than `desc->memory` (the message contains both
 *     and the source of the limit)
 */
BO_API bo_status bo_machine_estimate(bo_context *context, const bo_machine_desc *desc, const bo_fit_shape *shape,
                                     bo_fit_cost *out);

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/** A fit in progress: sums of outer products. The memory is O(features²), independent of the number of rows. It becomes
 * a machine or an embedding (embedding.h), by the function that created it. */
typedef struct bo_fitting bo_fitting;

/** Starts a fit from a stream.
 *
 * γ, the scaling and the candidates for λ are chosen from the sample: a uniform sample of the rows that will be added
 * (experimental: bo_table_sample()); 10000 rows are a good size. The fit does not include the rows of the sample,
 * because the stream contains them again.
 *
 * @param context    the context
 * @param desc       the settings
 * @param sample     the sample; not needed after the call
 * @param[out] out   the fitting; release it with bo_fitting_destroy()
 * @return as bo_machine_fit(); BO_UNSUPPORTED for the logistic loss and for solvers other than PRIMAL
 */
BO_API bo_status bo_fitting_create(bo_context *context, const bo_machine_desc *desc, const bo_samples *sample,
                                   bo_fitting **out);

/** Destroys a fitting.
 *
 * @param fitting   the object, or NULL
 */
BO_API void bo_fitting_destroy(bo_fitting *fitting);

/** Adds rows.
 *
 * After a failure (memory, cancellation) some of the rows may have been added: destroy the fitting and start again.
 *
 * @param context           the context
 * @param[in,out] fitting   the fitting
 * @param rows              the rows; not needed after the call
 * @return BO_OK; BO_INVALID if a number is not finite, or the rows differ from the sample in columns, targets or
 *     classes
 */
BO_API bo_status bo_fitting_add(bo_context *context, bo_fitting *fitting, const bo_samples *rows);

/** Solves the system of a machine. More rows may be added afterwards, and the fitting may be finished again.
 *
 * @param context           the context
 * @param[in,out] fitting   the fitting
 * @param[out] out          the machine; release it with bo_machine_destroy()
 * @return BO_OK; BO_INVALID if fewer than 2 rows were added, or the fitting belongs to an embedding; BO_NUMERIC if the
 *     system cannot be solved
 */
BO_API bo_status bo_fitting_finish(bo_context *context, bo_fitting *fitting, bo_machine **out);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Adds the rows that another fitting has received.
 *
 * @param context           the context
 * @param[in,out] fitting   the fitting
 * @param other             a fitting from the same sample, descriptor and seed
 * @return BO_OK; BO_INVALID if the two fittings differ in sample, descriptor or seed
 */
BO_API bo_status bo_fitting_merge(bo_context *context, bo_fitting *fitting, const bo_fitting *other);

/** Computes the gradients of the predictions by the scaled inputs, ∂f_t/∂s_j at s(x), before the metric.
 *
 * The unit is the unit of the target (class scores for classification) per unit of the *scaled* input. With the scaling
 * COLUMNS this is per standard deviation of the column: the derivative by the column times its standard deviation. Rows
 * whose scaled inputs are clipped have the gradient at the bound. Columns that were constant in the fit have gradient
 * 0. The rounding of features to 8 bits is ignored. If predictions are averaged (bo_fit_report.members), gradients are
 * averaged as well, each with respect to the scaled inputs of its machine.
 *
 * @param context          the context; progress is reported as "gradients"
 * @param machine          the machine
 * @param inputs           dense rows, not scaled
 * @param[out] gradients   rows x outputs x dim
 * @return BO_OK; BO_INVALID if an input is not finite; BO_UNSUPPORTED if the rows are sparse, or the features are
 *     CUSTOM without a gradient; BO_NUMERIC if a gradient is beyond the range of float
 */
BO_API bo_status bo_machine_gradients(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                                      float *gradients);

/** Sums the fittings of all ranks of a parallel job.
 *
 * Every rank calls this function once, after its last bo_fitting_add(). Afterwards bo_fitting_finish() gives the same
 * machine on every rank.
 *
 * @param context           the context
 * @param[in,out] fitting   the fitting of this rank
 * @param collective        the parallel job
 * @return BO_OK; the status of `collective->sum` if it fails; BO_INVALID if the fitting belongs to an embedding
 */
BO_API bo_status bo_fitting_reduce(bo_context *context, bo_fitting *fitting, const bo_collective *collective);

#endif

#ifdef __cplusplus
}
#endif
#endif
