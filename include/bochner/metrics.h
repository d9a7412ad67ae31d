/** @file
 * The quality of predictions, accumulated block by block.
 *
 *     bo_metrics *metrics;
 *     bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, .has_std = true}, &metrics);
 *     // for each block
 *     bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = rows, .y = y, .mean = mean, .std = std});
 *     bo_metrics_summary summary;
 *     bo_metrics_report(metrics, &summary);
 *     printf("RMSE %g, R2 %g\n", summary.rmse, summary.r2);
 *     bo_metrics_destroy(metrics);
 *
 * For a kernel machine, bo_machine_create_metrics() and bo_machine_evaluate() of machines.h do this in two calls.
 * bo_metrics_measure() returns a single score with its standard error.
 *
 * Memory does not grow with the number of rows. Sums are exact. What needs all rows (the median, the AUC, ROC curves)
 * is exact up to `points` rows; beyond that, the median is computed from a sample, and the AUC from bins, with a bound
 * of its error.
 *
 * **Ownership.** The caller destroys a bo_metrics. **Threads.** Adding needs exclusive access; the results may be read
 * from several threads at once.
 */
#ifndef BOCHNER_METRICS_H
#define BOCHNER_METRICS_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The settings of metrics: regression if `targets` is not 0, classification if `classes` is not 0. One must be 0. */
typedef struct bo_metrics_desc {
    size_t targets; /**< regression: numbers predicted per row */
    size_t classes; /**< classification: number of classes */
    bool has_std;   /**< regression: predictions have standard deviations */
    /** Regression: number of predictions to keep, for a plot and the median error. Classification: number of rows whose
     * probabilities are kept for the AUC and ROC curves. 0: none are kept, and these scores are not available. */
    size_t points;
    const char *const *labels; /**< names of the classes, for reports; must outlive the metrics; or NULL */
    uint64_t reserved[4];      /**< must be zero */
} bo_metrics_desc;

/** Accumulated metrics. The members are documented under Advanced. */
typedef struct bo_metrics bo_metrics;

/** Creates empty metrics.
 *
 * @param context    the context
 * @param desc       what to measure
 * @param[out] out   the new object; release it with bo_metrics_destroy()
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_metrics_create(bo_context *context, const bo_metrics_desc *desc, bo_metrics **out);

/** Destroys metrics.
 *
 * @param metrics   the object, or NULL
 */
BO_API void bo_metrics_destroy(bo_metrics *metrics);

/** Rows with their true values and their predictions. */
typedef struct bo_metrics_rows {
    size_t rows;     /**< number of rows */
    const double *y; /**< true values, rows x targets; true classes, each in 0…classes-1 */
    /** Regression: predictions, rows x targets. Required. */
    const double *mean;
    const double *std;  /**< regression: standard deviations, rows x targets; required with `has_std`; or NULL */
    const double *low;  /**< regression: lower ends of 95% intervals, rows x targets; NULL: `mean` - 1.96 `std` */
    const double *high; /**< regression: upper ends; given if `low` is given, with `std`; NULL: `mean` + 1.96 `std` */
    /** Classification: predicted classes. Required. */
    const int *predicted;
    /** Classification: predicted probabilities, rows x classes. Required. Probabilities below 1e-15 count as 1e-15, so
     * that the log loss stays finite. */
    const double *probabilities;
    uint64_t reserved[4]; /**< must be zero */
} bo_metrics_rows;

/** Adds rows. If they are refused with BO_INVALID, nothing is added.
 *
 * @param context           the context
 * @param[in,out] metrics   the metrics
 * @param rows              the rows
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_metrics_add(bo_context *context, bo_metrics *metrics, const bo_metrics_rows *rows);

/** The number of parts of the predictions, from the smallest to the largest, whose coverage is measured. */
#define BO_COVERAGE_PARTS 5

/** Scores of all rows. A score that does not apply, or for which no row was added, is NAN. */
typedef struct bo_metrics_summary {
    double rmse; /**< regression: root mean square error over all targets */
    double r2;   /**< regression: R², the mean over the targets */
    /** regression: fraction of true values inside the 95% interval; NAN without standard deviations */
    double coverage;
    /** Regression: the same for each fifth of the predictions, from the smallest to the largest; NAN with fewer than 5
     * rows.
     *
     * The rows are ordered by their predictions, separately for each target. Beyond 16384 rows (fewer with more than 64
     * targets) the fractions are computed from a uniform sample of the rows. */
    double coverage_parts[BO_COVERAGE_PARTS];
    double accuracy;      /**< classification: fraction of rows whose class was predicted correctly, in [0, 1] */
    double log_loss;      /**< classification: mean negative log-likelihood of the true classes, in nats */
    uint64_t reserved[4]; /**< zero */
} bo_metrics_summary;

/** Computes the scores of all rows.
 *
 * @param metrics    the metrics
 * @param[out] out   the scores
 */
BO_API void bo_metrics_report(const bo_metrics *metrics, bo_metrics_summary *out);

/** A measure of the quality of predictions. */
typedef enum bo_score {
    BO_SCORE_RMSE = 0,         /**< regression: root mean square error over all targets */
    BO_SCORE_R2 = 1,           /**< regression: R², the mean over the targets */
    BO_SCORE_MAE = 2,          /**< regression: mean absolute error over all targets */
    BO_SCORE_MEDIAN_ERROR = 3, /**< regression of one target: median absolute error of the kept predictions */
    BO_SCORE_COVERAGE = 4,     /**< regression: fraction of true values inside the 95% interval */
    BO_SCORE_ACCURACY = 5,     /**< classification: fraction of rows whose class was predicted correctly */
    BO_SCORE_LOG_LOSS = 6,     /**< classification: mean negative log-likelihood of the true classes, in nats */
    /** Classification: area under the ROC curve, the probability that a row of the class has a higher score than a row
     * of another class, where ties count half. Two classes: of the second class. More: the mean over the classes, each
     * against all other classes; classes without rows are left out. */
    BO_SCORE_AUC = 7,
    /** Classification: mean squared difference of probabilities and outcomes (Brier 1950). Two classes: of the
     * probability of one class; more: summed over the classes. */
    BO_SCORE_BRIER = 8,
    BO_SCORE_MACRO_F1 = 9, /**< classification: mean F1 of the classes that are true or predicted in some row */
    /** Classification: expected calibration error, Σ n_b/n |outcomes_b - probabilities_b| over the bins of
     * `calibration` of bo_metrics_summary (Naeini et al. 2015). */
    BO_SCORE_CALIBRATION = 10
} bo_score;

/** A score with its uncertainty. */
typedef struct bo_measure {
    double value; /**< the score; NAN if it does not apply or was not accumulated */
    /** The standard error that results from the finite number of rows, if rows are independent; NAN if it is not known.
     * RMSE: by the delta method; AUC of two classes: DeLong et al. 1988; means and fractions: σ/√n. */
    double error;
    double bound; /**< AUC: a bound of |value - exact value|, 0 if all rows were kept; other scores: 0 */
} bo_measure;

/* ==== Advanced ==================================================================================================== */

/** Half the width of a 95% interval in standard deviations: Φ⁻¹(0.975). */
#define BO_INTERVAL_95 1.959963984540054

/** Scores of one target. A score is NAN if no row was added. */
typedef struct bo_target_scores {
    double rmse;          /**< root mean square error */
    double mae;           /**< mean absolute error */
    double r2;            /**< R²; NAN if the true values do not vary */
    double coverage;      /**< fraction of true values inside the 95% interval; NAN without standard deviations */
    uint64_t reserved[4]; /**< zero */
} bo_target_scores;

/** Computes the scores of one target.
 *
 * @param metrics    the metrics of a regression
 * @param index      the target
 * @param[out] out   the scores
 * @return false if there is no such target
 */
BO_API bool bo_metrics_target(const bo_metrics *metrics, size_t index, bo_target_scores *out);

/** Scores of one class against all other classes. */
typedef struct bo_class_scores {
    uint64_t rows;      /**< rows of the class */
    uint64_t predicted; /**< rows that were predicted as the class */
    double precision;   /**< fraction of the predicted rows that are rows of the class; NAN without predicted rows */
    double recall;      /**< fraction of the rows of the class that were predicted as the class; NAN without rows */
    double f1;          /**< harmonic mean of precision and recall; NAN without rows and predicted rows */
    double auc;         /**< area under the ROC curve; NAN if it is not available */
    double auc_error;   /**< its standard error */
} bo_class_scores;

/** A mean by Welford's recurrence. */
typedef struct bo_running {
    double mean;              /**< the mean */
    double squared_deviation; /**< Σ (value - mean)² */
} bo_running;

/** The number of bins of predicted probabilities. */
#define BO_CALIBRATION_BINS 20

/** The rows whose predicted probability is in one of BO_CALIBRATION_BINS equal parts of [0, 1]. With two classes it is
 * the probability of the second class, otherwise the probability of the predicted class. */
typedef struct bo_calibration_bin {
    uint64_t rows;      /**< number of rows */
    uint64_t outcomes;  /**< number of rows of that class */
    double probability; /**< sum of the probabilities */
} bo_calibration_bin;

/** Sums over the rows for one target. */
typedef struct bo_target_sums {
    double squared_error;     /**< Σ (prediction - y)² / 4^exponent */
    double mean;              /**< mean of y, by Welford's recurrence */
    double squared_deviation; /**< Σ (y - mean)² / 4^exponent */
    int exponent;             /**< 0, unless squares of the targets are outside the range of double */
    uint64_t covered;         /**< number of rows with y inside mean ± BO_INTERVAL_95 std */
} bo_target_sums;

/** Moments of the errors of one target, in units of 2^exponent (bo_target_sums). */
typedef struct bo_error_moments {
    double fourth_power; /**< Σ (prediction - y)⁴ / 16^exponent */
    bo_running absolute; /**< |prediction - y| / 2^exponent */
} bo_error_moments;

/** The members of ::bo_metrics.
 *
 * Allocated by the library and read-only for callers. Later versions may add members at the end.
 */
struct bo_metrics {
    bo_metrics_desc desc; /**< the descriptor */
    uint64_t rows;        /**< number of rows added */
    bo_target_sums *sums; /**< regression: one per target */
    uint64_t right;       /**< classification: number of rows predicted correctly */
    uint64_t *confusion;  /**< classification: classes x classes; row: true class, column: predicted class */
    double log_loss;      /**< classification: Σ -log p(truth) */
    /** Regression: number of entries in the three arrays below. They describe the first target: all rows up to
     * `desc.points`, then a uniform sample. */
    size_t points;
    double *truth;     /**< true values */
    double *predicted; /**< predictions */
    double *deviation; /**< standard deviations; NULL without `has_std` */
    /** Regression with `has_std`: number of rows of the two arrays below, a uniform sample of all rows. */
    size_t interval_rows;
    double *interval_mean;           /**< predictions, rows x targets */
    bool *interval_inside;           /**< whether the true value is inside the interval, rows x targets */
    bo_error_moments *moments;       /**< regression: one per target */
    double loss_deviation;           /**< classification: Σ (-log p(truth) - mean)² */
    uint64_t scored;                 /**< classification: number of rows with probabilities */
    bo_running brier;                /**< classification: squared differences of probabilities and outcomes */
    bo_calibration_bin *calibration; /**< classification: BO_CALIBRATION_BINS bins */
    struct bo_ranking *ranking;      /**< classification: scores for the AUC; internal */
};

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Computes a score.
 *
 * @param context    the context
 * @param metrics    the metrics
 * @param score      the score
 * @param[out] out   its value and uncertainty
 * @return BO_OK, also if the score does not apply; BO_INVALID if there is no such score; BO_MEMORY
 */
BO_API bo_status bo_metrics_measure(bo_context *context, const bo_metrics *metrics, bo_score score, bo_measure *out);

/** Computes the scores of one class.
 *
 * @param context    the context
 * @param metrics    the metrics of a classification
 * @param index      the class
 * @param[out] out   the scores
 * @return BO_OK; BO_INVALID if there is no such class; BO_MEMORY
 */
BO_API bo_status bo_metrics_class(bo_context *context, const bo_metrics *metrics, size_t index, bo_class_scores *out);

/** Computes the ROC curve of one class: the fractions of the other rows and of the rows of the class whose scores
 * exceed a threshold, for falling thresholds.
 *
 * The curve starts at (0, 0) and ends at (1, 1). Points on a line between two other points are left out. If more than
 * `max_points` points remain, some are left out evenly.
 *
 * @param context            the context
 * @param metrics            the metrics of a classification
 * @param index              the class
 * @param max_points         the maximum number of points, at least 2
 * @param[out] false_rates   fractions of the other rows
 * @param[out] true_rates    fractions of the rows of the class
 * @param[out] count         the number of points; 0 if no curve is available
 * @return BO_OK; BO_INVALID if there is no such class or `max_points` is less than 2; BO_MEMORY
 */
BO_API bo_status bo_metrics_roc(bo_context *context, const bo_metrics *metrics, size_t index, size_t max_points,
                                double *false_rates, double *true_rates, size_t *count);

/** Returns whether a larger value of a score is better.
 *
 * @param score   the score
 * @return true for R², accuracy, AUC and F1; false for errors, losses and the coverage, which is best at 0.95
 */
BO_API bool bo_score_larger_is_better(bo_score score);

#endif

#ifdef __cplusplus
}
#endif
#endif
