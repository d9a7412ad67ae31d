/** @file
 * Explanations of kernel machines: which columns matter, how predictions depend on them, and why a row has its
 * prediction. Experimental.
 *
 *     // the third column consists of 4 inputs
 *     bo_explain_desc desc = {.columns = 3, .starts = (size_t[]){0, 1, 2, 6}};
 *     double gradients[3], base[1], prediction[1], contributions[3];
 *     bo_inputs rows = {.rows = n, .x = x};
 *     // root mean square gradients
 *     bo_explain_gradients(context, machine, &desc, &rows, gradients, 0, NULL, NULL);
 *     bo_explain_errors errors;
 *     bo_column_importance importance[3];
 *     bo_explain_permutations(context, machine, &desc, &rows, y, NULL, &errors, importance);
 *     bo_explain_row(context, machine, &desc, &rows, row, base, prediction, contributions, NULL);
 *
 * **Columns.** A column of a table may be several inputs of the machine, such as the categories of a text column. They
 * are changed together. **Outputs** are the targets of a regression, or the calibrated probabilities of the classes.
 *
 * All methods describe the machine, not the world: a column without importance may be informative if other columns have
 * the same information. Permutations, curves and contributions combine values of different rows, also to rows that do
 * not occur in the data if columns depend on each other.
 *
 * **Threads.** A machine may be explained by several threads at once, each with its own context. Results depend on the
 * seed, but not on the number of threads. Memory is bounded: rows are processed in blocks.
 */
#ifndef BOCHNER_EXPLAIN_H
#define BOCHNER_EXPLAIN_H

#include <bochner/base.h>
#include <bochner/machines.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The columns of the table, and the settings of explanations. Zero: every input is a column. */
typedef struct bo_explain_desc {
    size_t columns; /**< number of columns (default: the number of inputs) */
    /** columns + 1 numbers: the inputs of column c are starts[c] … starts[c + 1] - 1; starts[0] is 0 and the last one
     * is the number of inputs. NULL: every input is a column. */
    const size_t *starts;
    size_t repeats;       /**< permutations of each column (default: 5) */
    size_t samples;       /**< bo_explain_row(): pairs of orders of the columns (default: one per row) */
    uint64_t seed;        /**< seed of permutations and orders */
    uint64_t reserved[4]; /**< must be zero */
} bo_explain_desc;

/** The importance of a column by permutation: means over the permutations, and their standard errors. */
typedef struct bo_column_importance {
    /** Increase of the error: root mean square error over all targets, or log loss. Without true values: root mean
     * square change of the predictions, or mean total variation distance of the probabilities. */
    double increase;
    double increase_error; /**< standard error; NAN for one permutation */
    /** Classification: decrease of the accuracy; without true values: fraction of rows whose class changes. Otherwise
     * NAN. */
    double accuracy;
    double accuracy_error; /**< standard error */
    uint64_t reserved[4];  /**< zero */
} bo_column_importance;

/** The errors without permutation. */
typedef struct bo_explain_errors {
    double error;         /**< root mean square error over all targets, or log loss; NAN without true values */
    double accuracy;      /**< classification: accuracy; otherwise NAN */
    uint64_t reserved[4]; /**< zero */
} bo_explain_errors;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Measures gradients: the average gradient outer product G = mean over the rows of Σ_t ∇f_t ∇f_tᵀ, by columns
 * (Radhakrishnan et al. 2024, arXiv 2212.13881).
 *
 * ∇f_t is the gradient of output t by the scaled inputs: per standard deviation of the column with the scaling COLUMNS.
 * Rows whose scaled inputs are clipped have the gradient at the bound; columns that were constant in the fit have
 * gradient 0.
 *
 * For a classifier, these are the gradients of the class scores.
 *
 * @param context           the context; progress is reported as "gradients"
 * @param machine           the machine
 * @param desc              the columns
 * @param inputs            dense rows, at least 1
 * @param[out] gradients    per column: √Σ G_jj over its inputs j, in units of the target per unit of the scaled inputs
 * @param directions        the number of eigenvectors of G, those of the largest eigenvalues; at most dim
 * @param[out] shares  per direction: its eigenvalue divided by the sum of all, descending; or NULL without directions
 * @param[out] vectors  directions x dim: unit vectors in the scaled inputs, the largest coordinate of each positive; or
 *     NULL without directions
 * @return BO_OK; BO_INVALID if the columns do not fit the machine or an input is not finite; BO_UNSUPPORTED if the rows
 *     are sparse, or the features are CUSTOM without a gradient; BO_NUMERIC if the squared gradients overflow;
 *     BO_MEMORY if G does not fit into memory
 */
BO_API bo_status bo_explain_gradients(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                                      const bo_inputs *inputs, double *gradients, size_t directions, double *shares,
                                      double *vectors);

/** Measures the importance of columns by permutation (Breiman 2001; Fisher, Rudin and Dominici 2019): the values of a
 * column are permuted among the rows, so that the column carries no information on the row, and the predictions are
 * tested again.
 *
 * @param context           the context; progress is reported as "permuting"
 * @param machine           the machine
 * @param desc              the columns
 * @param inputs  dense rows, at least 2; rows that were not used for the fit show what the machine learned beyond them
 * @param y  true values, rows x targets, or one class index per row; or NULL: changes of predictions are measured
 * @param chosen            one flag per column: measure this one; the others are NAN; or NULL: all
 * @param[out] errors       the errors without permutation
 * @param[out] importance   one per column
 * @return BO_OK; BO_INVALID if the columns do not fit the machine, an input is not finite, or a class is out of range
 */
BO_API bo_status bo_explain_permutations(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                                         const bo_inputs *inputs, const double *y, const bool *chosen,
                                         bo_explain_errors *errors, bo_column_importance *importance);

/** Explains the prediction of one row: contributions of the columns that add up to the prediction minus the mean
 * prediction.
 *
 * The contributions are Shapley values (Štrumbelj and Kononenko 2014; Lundberg and Lee 2017), sampled: a row of the
 * data becomes the explained row column by column, in random order, and the change of the prediction at each step is
 * the contribution of that column. Each order is used together with its reverse. The sum is exact for any number of
 * samples, because the changes of one order add up to the difference of both predictions.
 *
 * @param context              the context; progress is reported as "explaining"
 * @param machine              the machine
 * @param desc  the columns; `samples` is the number of pairs of orders, each with another row, from the first on
 * @param inputs               dense rows to compare with, at least 1
 * @param row                  `dim` inputs of the row that is explained
 * @param[out] base            per output: the mean prediction of the rows, as often as they were used
 * @param[out] prediction      per output: the prediction of the row
 * @param[out] contributions   columns x outputs
 * @param[out] errors          their standard errors, columns x outputs; NAN for one sample; or NULL
 * @return BO_OK; BO_INVALID if the columns do not fit the machine or an input is not finite
 */
BO_API bo_status bo_explain_row(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                                const bo_inputs *inputs, const float *row, double *base, double *prediction,
                                double *contributions, double *errors);

/** Chooses values of a column for a curve: all distinct values if there are at most `max_points`, otherwise values at
 * equally spaced quantiles, from 1% to 99% of the rows.
 *
 * A value consists of all inputs of the column. Values are ordered by the first input, then by the second, and so on.
 *
 * @param context       the context
 * @param machine       the machine
 * @param desc          the columns
 * @param inputs        dense rows, at least 1
 * @param column        the column
 * @param max_points    the maximum number of values, at least 2
 * @param[out] chosen   per value: a row that has it; an array of `max_points` numbers
 * @param[out] points   the number of values
 * @return BO_OK; BO_INVALID if the columns do not fit the machine
 */
BO_API bo_status bo_explain_values(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                                   const bo_inputs *inputs, size_t column, size_t max_points, size_t *chosen,
                                   size_t *points);

/** Computes a partial dependence curve (Friedman 2001): the mean prediction over the rows if a column has a given value
 * in all.
 *
 * The band contains the individual curves of 80% of the rows (Goldstein et al. 2015). The curves of a regression are
 * shifted to the level of the mean curve: the band is wide where the effect of the column depends on other columns, and
 * has width 0 if the effects add up. Probabilities are not shifted, and stay between 0 and 1.
 *
 * @param context       the context; progress is reported as "curves"
 * @param machine       the machine
 * @param desc          the columns
 * @param inputs        dense rows, at least 1
 * @param column        the column
 * @param points        the number of values
 * @param values        per value: a row that has it, as bo_explain_values() chooses them
 * @param[out] mean     points x outputs: the mean predictions
 * @param[out] low      points x outputs: 10% quantiles of the individual curves; or NULL
 * @param[out] high     points x outputs: 90% quantiles of the individual curves; or NULL
 * @return BO_OK; BO_INVALID if the columns do not fit the machine, a value is not one of the rows, or an input is not
 *     finite; BO_MEMORY if the individual curves do not fit into memory
 */
BO_API bo_status bo_explain_curve(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                                  const bo_inputs *inputs, size_t column, size_t points, const size_t *values,
                                  double *mean, double *low, double *high);

#endif

#ifdef __cplusplus
}
#endif
#endif
