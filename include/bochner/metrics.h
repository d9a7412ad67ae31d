/** @file
 * The quality of predictions, accumulated block by block.
 *
 *     bo_metrics *metrics;
 *     bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, .has_std = true}, &metrics);
 *     bo_metrics_add(context, metrics, rows, y, mean, std);              // for each block of rows
 *     printf("RMSE %g, R2 %g\n", bo_metrics_rmse(metrics), bo_metrics_r2(metrics));
 *     bo_metrics_destroy(metrics);
 *
 * For a kernel machine, bo_machine_create_metrics() and bo_machine_evaluate() of machines.h do this in two calls.
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
    size_t targets;            /**< regression: numbers predicted per row */
    size_t classes;            /**< classification: number of classes */
    bool has_std;              /**< regression: predictions have standard deviations */
    size_t points;             /**< regression: number of predictions to keep for a plot; 0: none */
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

/** Adds rows of a regression.
 *
 * If the rows are refused with BO_INVALID, nothing is added.
 *
 * @param context           the context
 * @param[in,out] metrics   the metrics
 * @param rows              the number of rows
 * @param y                 true values, rows x targets
 * @param mean              predictions, rows x targets
 * @param std               standard deviations, rows x targets; or NULL without `has_std`
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_metrics_add(bo_context *context, bo_metrics *metrics, size_t rows, const double *y,
                                const double *mean, const double *std);

/** Adds rows of a regression whose predictions have intervals.
 *
 * The coverage is that of these intervals; bo_metrics_add() takes `mean` ± 1.96 `std` instead. If the rows are refused with
 * BO_INVALID, nothing is added.
 *
 * @param context           the context
 * @param[in,out] metrics   the metrics; `has_std` must be set
 * @param rows              the number of rows
 * @param y                 true values, rows x targets
 * @param mean              predictions, rows x targets
 * @param std               standard deviations, rows x targets
 * @param low               lower ends of 95% intervals, rows x targets
 * @param high              upper ends, rows x targets
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_metrics_add_intervals(bo_context *context, bo_metrics *metrics, size_t rows, const double *y,
                                          const double *mean, const double *std, const double *low, const double *high);

/** Adds rows of a classification.
 *
 * Probabilities below 1e-15 count as 1e-15, so that the log loss stays finite. If the rows are refused with BO_INVALID,
 * nothing is added.
 *
 * @param context           the context
 * @param[in,out] metrics   the metrics
 * @param rows              the number of rows
 * @param y                 true classes, each in 0…classes-1
 * @param predicted         predicted classes
 * @param probabilities     predicted probabilities, rows x classes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_metrics_add_classes(bo_context *context, bo_metrics *metrics, size_t rows, const double *y,
                                        const int *predicted, const double *probabilities);

/** Returns the root mean square error over all targets.
 *
 * @param metrics   the metrics
 * @return the error; NAN if no row was added
 */
BO_API double bo_metrics_rmse(const bo_metrics *metrics);

/** Returns R², the mean over the targets.
 *
 * @param metrics   the metrics
 * @return R²; NAN if no row was added
 */
BO_API double bo_metrics_r2(const bo_metrics *metrics);

/** Returns the fraction of true values inside the 95% interval of the prediction.
 *
 * @param metrics   the metrics
 * @return the fraction; NAN if no row was added or there are no standard deviations
 */
BO_API double bo_metrics_coverage(const bo_metrics *metrics);

/** The number of parts of the predictions, from the smallest to the largest, whose coverage is measured. */
#define BO_COVERAGE_PARTS 5

/** Returns the fraction of true values inside the 95% interval for one fifth of the predictions.
 *
 * The rows are ordered by their predictions, separately for each target. Beyond 16384 rows (fewer with more than 64
 * targets) the fraction is that of a uniform sample of the rows.
 *
 * @param metrics   the metrics
 * @param part      the fifth: 0 for the smallest predictions, BO_COVERAGE_PARTS - 1 for the largest
 * @return the fraction; NAN if there are fewer than 5 rows, no such part, or no standard deviations
 */
BO_API double bo_metrics_coverage_part(const bo_metrics *metrics, size_t part);

/** Returns the fraction of rows whose class was predicted correctly.
 *
 * @param metrics   the metrics
 * @return the fraction, in [0, 1]; NAN if no row was added
 */
BO_API double bo_metrics_accuracy(const bo_metrics *metrics);

/** Returns the mean negative log-likelihood of the true classes, in nats.
 *
 * @param metrics   the metrics
 * @return the log loss; NAN if no row was added
 */
BO_API double bo_metrics_log_loss(const bo_metrics *metrics);

/* ==== Advanced ==================================================================================================== */

/** Half the width of a 95% interval in standard deviations: Φ⁻¹(0.975). */
#define BO_INTERVAL_95 1.959963984540054

/** Adds one row of a classification.
 *
 * @param context           the context
 * @param[in,out] metrics   the metrics
 * @param truth             the true class
 * @param predicted         the predicted class
 * @param loss              -log p(truth)
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_metrics_add_class(bo_context *context, bo_metrics *metrics, size_t truth, size_t predicted,
                                      double loss);

/** Returns the root mean square error of one target.
 *
 * @param metrics   the metrics
 * @param target    the index of the target
 * @return the error; NAN if there is no such target or no row was added
 */
BO_API double bo_metrics_target_rmse(const bo_metrics *metrics, size_t target);

/** Returns R² of one target.
 *
 * @param metrics   the metrics
 * @param target    the index of the target
 * @return R²; NAN if there is no such target, no row was added, or the true values do not vary
 */
BO_API double bo_metrics_target_r2(const bo_metrics *metrics, size_t target);

/** Returns the fraction of true values of one target inside the 95% interval of the prediction.
 *
 * @param metrics   the metrics
 * @param target    the index of the target
 * @return the fraction; NAN if there is no such target, no row was added, or there are no standard deviations
 */
BO_API double bo_metrics_target_coverage(const bo_metrics *metrics, size_t target);

/** Sums over the rows for one target. */
typedef struct bo_target_sums {
    double squared_error;     /**< Σ (prediction - y)² / 4^exponent */
    double mean;              /**< mean of y, by Welford's recurrence */
    double squared_deviation; /**< Σ (y - mean)² / 4^exponent */
    int exponent;             /**< 0, unless squares of the targets are outside the range of double */
    uint64_t covered;         /**< number of rows with y inside mean ± BO_INTERVAL_95 std */
} bo_target_sums;

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
    /** Regression: number of entries in the three arrays below. They hold the first target: all rows up to
     * `desc.points`, then a uniform sample. */
    size_t points;
    double *truth;     /**< true values */
    double *predicted; /**< predictions */
    double *deviation; /**< standard deviations; NULL without `has_std` */
    /** Regression with `has_std`: number of rows of the two arrays below, a uniform sample of all rows. */
    size_t interval_rows;
    double *interval_mean; /**< predictions, rows x targets */
    bool *interval_inside; /**< whether the true value is inside the interval, rows x targets */
};

#ifdef __cplusplus
}
#endif
#endif
