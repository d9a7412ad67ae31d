/** @file
 * Two-sample tests: whether two tables have the same distribution. Experimental.
 *
 * The maximum mean discrepancy (MMD; Gretton et al. 2012) of two samples A and B is the distance of their mean
 * features. With random features of a kernel it is computed in one pass, in time linear in the number of rows:
 *
 *     MMD² = |mean φ(A) - mean φ(B)|²             biased: positive also if both distributions are the same
 *     MMD² - tr C_A / m - tr C_B / n              unbiased: zero on average if they are the same
 *
 * where C_A and C_B are the covariances of the features and m and n the numbers of rows. The p-value is the probability
 * of an MMD² at least as large if the rows of both samples came from one distribution.
 *
 *     bo_drift_desc desc = {.columns = 3, .rows_a = 1000, .rows_b = 800};
 *     bo_drift *drift;
 *     bo_drift_create(context, &desc, sample_rows, sample, &drift);    // sample: rows of both tables
 *     bo_drift_add(context, drift, BO_DRIFT_A, 1000, a, 3);
 *     bo_drift_add(context, drift, BO_DRIFT_B, 800, b, 3);
 *     bo_drift_finish(context, drift, &report, columns);               // report.p_value, columns[j].p_adjusted
 *     bo_drift_destroy(drift);
 *
 * **Rows.** A column holds numbers, or categories as the numbers 0, 1, 2, …; NAN is a missing value. Numbers are
 * standardized by the sample; a missing number becomes the mean and sets an indicator. Categories are one-hot encoded.
 *
 * **Columns.** Each column is also tested separately, with a separate bandwidth; a missing value is an additional
 * category. Their p-values are asymptotic, because a permutation test of P permutations has no p-value below 1/(P + 1),
 * and are adjusted for the number of columns by the method of Holm (1979).
 *
 * **Ownership.** The caller destroys the object. **Threads.** An object needs exclusive access.
 */
#ifndef BOCHNER_DRIFT_H
#define BOCHNER_DRIFT_H

#include <bochner/base.h>
#include <bochner/features.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** A test in progress. The memory does not depend on the number of rows. */
typedef struct bo_drift bo_drift;

/** The computation of the p-value. */
typedef enum bo_p_value {
    /** Rows are assigned to A and B at random, `permutations` times: p = (1 + #{MMD² at least as large}) / (1 +
     * permutations). Exact for any number of rows (the rate of false alarms is at most α for a test p <= α). */
    BO_P_VALUE_PERMUTATION = 0,
    /** The distribution for many rows: m n / (m + n) MMD² is a sum Σ λ_i z_i² of independent squared normal variables,
     * where λ_i are the eigenvalues of the pooled covariance of the features within A and B. */
    BO_P_VALUE_ASYMPTOTIC = 1
} bo_p_value;

/** One of the two samples. */
typedef enum bo_drift_side {
    BO_DRIFT_A = 0, /**< the first sample */
    BO_DRIFT_B = 1  /**< the second sample */
} bo_drift_side;

/** The settings of a test. `columns`, `rows_a` and `rows_b` have no default. */
typedef struct bo_drift_desc {
    size_t columns;           /**< number of columns; required */
    const size_t *categories; /**< per column: number of categories, at most 1024; 0: numbers; NULL: all are numbers */
    size_t rows_a;            /**< number of rows of A, at least 2; required */
    size_t rows_b;            /**< number of rows of B, at least 2; required */
    /** The feature map; `dim`, `seed` and `sample` are set by the test. Default of `features`: 512 if the map is
     * random. Default of `gamma`: the median heuristic on the sample. */
    bo_features_desc features;
    bo_p_value p_value;   /**< computation of the p-value of the tables (default: permutation) */
    size_t permutations;  /**< number of permutations (default: 999) */
    uint64_t seed;        /**< seed of features and permutations */
    uint64_t reserved[4]; /**< must be zero */
} bo_drift_desc;

/** The result of a test. */
typedef struct bo_drift_report {
    size_t rows_a;        /**< number of rows of A */
    size_t rows_b;        /**< number of rows of B */
    size_t dim;           /**< number of columns of the feature map's input, after encoding */
    size_t features;      /**< length of φ(x) */
    bo_kernel kernel;     /**< the kernel */
    double gamma;         /**< γ used */
    double mmd2;          /**< MMD², unbiased; may be negative */
    double mmd2_biased;   /**< MMD², biased */
    double p_value;       /**< the p-value */
    bo_p_value p_kind;    /**< its computation */
    size_t permutations;  /**< number of permutations; 0: asymptotic */
    uint64_t reserved[4]; /**< zero */
} bo_drift_report;

/** The result for one column. */
typedef struct bo_drift_column {
    double mmd2;          /**< MMD², unbiased */
    double p_value;       /**< asymptotic p-value of this column */
    double p_adjusted;    /**< the same, adjusted for the number of columns (Holm) */
    size_t missing_a;     /**< missing values in A */
    size_t missing_b;     /**< missing values in B */
    uint64_t reserved[4]; /**< zero */
} bo_drift_column;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Starts a test.
 *
 * The scaling and the bandwidths are chosen from the sample: uniform rows of both tables together.
 *
 * @param context       the context
 * @param desc          the settings
 * @param sample_rows   the number of rows of the sample, at least 2
 * @param sample        sample_rows x columns; not needed after the call
 * @param[out] out      the test; release it with bo_drift_destroy()
 * @return BO_OK; BO_INVALID if a size or a value is out of range; BO_UNSUPPORTED if the parts of the feature map do not
 *     fit together; BO_MEMORY if the test needs more than three quarters of the memory of the process
 */
BO_API bo_status bo_drift_create(bo_context *context, const bo_drift_desc *desc, size_t sample_rows,
                                 const double *sample, bo_drift **out);

/** Destroys a test.
 *
 * @param drift   the object, or NULL
 */
BO_API void bo_drift_destroy(bo_drift *drift);

/** Adds rows of one sample. The order does not matter. After a failure some rows may have been added: start again.
 *
 * @param context         the context
 * @param[in,out] drift   the test
 * @param side            the sample that the rows belong to
 * @param rows            the number of rows
 * @param x               rows x columns; NAN: a missing value
 * @param ldx             numbers between two rows of x
 * @return BO_OK; BO_INVALID if a number is infinite or not a category, or there are more rows than announced
 */
BO_API bo_status bo_drift_add(bo_context *context, bo_drift *drift, bo_drift_side side, size_t rows, const double *x,
                              size_t ldx);

/** Computes the result.
 *
 * @param context        the context
 * @param drift          the test
 * @param[out] report    the result for the tables
 * @param[out] columns   the result for each column; or NULL
 * @return BO_OK; BO_INVALID if fewer rows were added than announced; BO_NUMERIC if the features overflow or the
 *     eigenvalues cannot be computed
 */
BO_API bo_status bo_drift_finish(bo_context *context, const bo_drift *drift, bo_drift_report *report,
                                 bo_drift_column *columns);

#endif

#ifdef __cplusplus
}
#endif
#endif
