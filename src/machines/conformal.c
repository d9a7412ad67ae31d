/* Conformal intervals: quantiles of the errors of left-out rows, relative to their deviations, bound the errors of new
 * rows.
 *
 * For m scores that are exchangeable with the score of a new row, the ⌈(m + 1) p⌉-th smallest is an upper bound with
 * probability at least p (jackknife+, arXiv 1905.02928, with leave-one-out predictions in closed form; split conformal
 * prediction with held-out rows). Quantiles are taken over windows of rows with similar predictions, so that intervals
 * have the requested coverage for small and for large predictions. */
#include "../base/base.h"
#include "../features/sections.h"
#include "../math/special.h"
#include "intervals.h"
#include "left_out.h"
#include "machine.h"
#include "prediction.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ROWS = 4096, /* scores that a machine keeps */
    WINDOW_ROWS =
        /* minimum rows of a window, if available. From this number on both quantiles are estimated; with fewer rows one
           quantile serves both sides */
    200,
    WINDOW_SHARE = 5, /* a window has this part of the rows */
    MAX_FREEDOM = 10, /* of the t distribution beyond the largest score: heavier tails than normal */
};

void bo_intervals_free(bo_intervals *intervals)
{
    bo_free(intervals->knot);
    bo_free(intervals->coefficient);
    bo_free(intervals->bound);
    bo_free(intervals->prediction);
    bo_free(intervals->score);
    *intervals = (bo_intervals){0};
}

/* ---- quantiles --------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The ⌈(m + 1) p⌉-th smallest of m ascending numbers. Beyond the largest one the tail of a t distribution is continued:
 * its distance from `center` grows like the quantiles of that distribution. `sides`: 2 for sizes of errors, 1 for
 * errors. */
static double upper_quantile(const double *sorted, size_t m, double p, int sides, double center)
{
    const double rank = ceil((double)(m + 1) * p * (1 - 1e-14));
    if (rank <= (double)m) return sorted[rank < 1 ? 0 : (size_t)rank - 1];
    const int freedom = m < 2 ? 1 : m - 1 < MAX_FREEDOM ? (int)m - 1 : MAX_FREEDOM;
    const double last = (double)m / (double)(m + 1), outside = sides == 2 ? 0.5 : 1;
    const double growth =
        bo_student_quantile(1 - outside * (1 - p), freedom) / bo_student_quantile(1 - outside * (1 - last), freedom);
    const double top = sorted[m - 1];
    return center + (top - center) * fmax(growth, 1);
}

/* Quantiles of the scores of a window; `space` is a buffer for all scores of the window. */
static void window_quantiles(const double *score, size_t m, double level, double *space, double *low, double *high)
{
    const bool both = m >= WINDOW_ROWS;
    for (size_t i = 0; i < m; i++) space[i] = both ? score[i] : fabs(score[i]);
    qsort(space, m, sizeof *space, compare);
    if (!both) {
        *high = upper_quantile(space, m, level, 2, 0);
        *low = -*high;
        return;
    }
    const double median = space[m / 2];
    *high = upper_quantile(space, m, 0.5 + 0.5 * level, 1, median);
    for (size_t i = 0; i < m; i++) space[i] = -score[i];
    qsort(space, m, sizeof *space, compare);
    *low = -upper_quantile(space, m, 0.5 + 0.5 * level, 1, -median);
}

bo_status bo_quantiles_find(bo_context *context, const bo_intervals *intervals, size_t t, double level,
                            bo_quantiles *out)
{
    const size_t n = intervals->rows, share = n / WINDOW_SHARE;
    size_t window = share > WINDOW_ROWS ? share : WINDOW_ROWS;
    if (window > n) window = n;
    size_t windows = 1 + 2 * (n - window) / window;
    if (windows > BO_MAX_WINDOWS) windows = BO_MAX_WINDOWS;
    double *space = bo_alloc_raw(context, window, sizeof *space, "quantiles");
    if (!space) return BO_MEMORY;
    const double *prediction = intervals->prediction + t * n, *score = intervals->score + t * n;
    *out = (bo_quantiles){.windows = windows};
    for (size_t k = 0; k < windows; k++) {
        const size_t first = windows > 1 ? k * (n - window) / (windows - 1) : 0;
        out->center[k] = prediction[first + window / 2];
        window_quantiles(score + first, window, level, space, &out->low[k], &out->high[k]);
    }
    bo_free(space);
    return BO_OK;
}

void bo_quantiles_at(const bo_quantiles *quantiles, double prediction, double *low, double *high)
{
    const size_t last = quantiles->windows - 1;
    const double *center = quantiles->center;
    size_t k = 0;
    while (k < last && prediction >= center[k + 1]) k++;
    *low = quantiles->low[k];
    *high = quantiles->high[k];
    if (k == last || !(prediction > center[k])) return;
    const double share = (prediction - center[k]) / (center[k + 1] - center[k]);
    *low += share * (quantiles->low[k + 1] - quantiles->low[k]);
    *high += share * (quantiles->high[k + 1] - quantiles->high[k]);
}

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

/* A few features of a block of rows. */
static bo_status feature_columns(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs,
                                 size_t count, double *out)
{
    const size_t features = bo_features_describe(row_map->phi)->features;
    float *z = bo_alloc_raw(context, inputs->rows * features, sizeof *z, "a block of features");
    bo_status status = z ? bo_row_map_apply(context, row_map, inputs, z, features) : BO_MEMORY;
    for (size_t k = 0; status == BO_OK && k < inputs->rows * count; k++)
        out[k] = (double)z[k / count * features + bo_deviation_column(features, count, k % count)];
    bo_free(z);
    return status;
}

/* A few sections of an exact kernel; its rows are dense. */
static bo_status section_columns(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs,
                                 size_t count, double *out)
{
    const size_t features = bo_features_describe(row_map->phi)->features, dim = row_map->scaler->kept;
    float *x = bo_alloc_raw(context, inputs->rows * dim, sizeof *x, "scaled rows");
    double *k = bo_alloc_raw(context, inputs->rows * features, sizeof *k, "a block of kernel values");
    bo_status status = x && k ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        status = bo_scaler_apply(context, row_map->scaler, inputs, x);
        if (status == BO_OK) status = bo_sections_matrix(context, row_map->phi, inputs->rows, x, dim, k, features);
    }
    for (size_t i = 0; status == BO_OK && i < inputs->rows * count; i++)
        out[i] = k[i / count * features + bo_deviation_column(features, count, i % count)];
    bo_free(x);
    bo_free(k);
    return status;
}

bo_status bo_left_out_columns(bo_context *context, const bo_row_map *row_map, const bo_samples *samples,
                              bo_left_out *left_out)
{
    const size_t features = bo_features_describe(row_map->phi)->features, rows = samples->rows;
    size_t weighted = 0;
    for (size_t i = 0; i < rows; i++) weighted += left_out->weight[i] > 0;
    const size_t count = bo_deviation_columns(features, left_out->outputs, weighted);
    if (samples->classes || count == 0) return BO_OK;
    size_t block = rows < BO_MACHINE_BLOCK ? rows : BO_MACHINE_BLOCK;
    while (block > 64 && block * features > (size_t)1 << 21) block /= 2;
    left_out->columns = bo_alloc_raw(context, rows * count, sizeof(double), "features of left-out rows");
    bo_status status = left_out->columns ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < rows; first += block) {
        const bo_input_view inputs = bo_samples_inputs(samples, first, rows - first < block ? rows - first : block);
        double *to = left_out->columns + first * count;
        status = bo_is_sections(row_map->phi) ? section_columns(context, row_map, &inputs, count, to)
                                              : feature_columns(context, row_map, &inputs, count, to);
    }
    if (status == BO_OK) left_out->columns_count = count;
    return status;
}

/* Copies the rows of a block into all of them. */
static void take_block(const bo_left_out *block, size_t first, bo_left_out *out)
{
    const size_t outputs = out->outputs, at = first * outputs, numbers = block->rows * outputs;
    memcpy(out->prediction + at, block->prediction, numbers * sizeof(double));
    memcpy(out->truth + at, block->truth, numbers * sizeof(double));
    memcpy(out->leverage + first, block->leverage, block->rows * sizeof(double));
    memcpy(out->weight + first, block->weight, block->rows * sizeof(double));
    if (out->label) memcpy(out->label + first, block->label, block->rows * sizeof *out->label);
}

bo_status bo_ridge_left_out_blocks(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                                   const bo_targets *targets, const bo_samples *samples, bool intercept,
                                   bo_left_out *out)
{
    BO_TRY(bo_left_out_create(context, samples->rows, ridge->outputs, targets->classes > 0, out));
    out->fit_weight = intercept ? ridge->weight : 0;
    bo_status status = BO_OK;
    for (size_t first = 0; status == BO_OK && first < samples->rows; first += BO_LEFT_OUT_BLOCK) {
        const size_t left = samples->rows - first, rows = left < BO_LEFT_OUT_BLOCK ? left : BO_LEFT_OUT_BLOCK;
        bo_sparse view;
        const bo_samples part = bo_samples_slice(samples, first, rows, &view);
        bo_left_out block;
        status = bo_progress(context, "leaving rows out", (double)first, (double)samples->rows);
        if (status == BO_OK) status = bo_ridge_left_out(context, ridge, row_map, targets, &part, intercept, &block);
        if (status != BO_OK) break;
        take_block(&block, first, out);
        bo_left_out_free(&block);
    }
    if (status == BO_OK) status = bo_left_out_columns(context, row_map, samples, out);
    if (status != BO_OK) bo_left_out_free(out);
    return status;
}

/* Rows of positive weight, with errors relative to the noise of a machine whose noise has equal size everywhere: a row
 * of weight w and leverage h has the standard deviation noise / √(w (1 - h)). */
typedef struct fitting_rows {
    size_t rows, columns;
    size_t *index;              /* of the left-out rows */
    double *prediction, *error; /* of one output */
    double *column;             /* rows x columns */
    double *left_out;           /* log s without the row */
    double *triples;            /* prediction, position and score, to be sorted */
} fitting_rows;

static void rows_free(fitting_rows *r)
{
    bo_free(r->index);
    bo_free(r->prediction);
    bo_free(r->error);
    bo_free(r->column);
    bo_free(r->left_out);
    bo_free(r->triples);
}

static bo_status rows_create(bo_context *context, const bo_left_out *left_out, fitting_rows *r)
{
    const size_t max_rows = left_out->rows, columns = left_out->columns_count;
    *r = (fitting_rows){.columns = columns};
    static const char label[] = "errors of left-out rows";
    r->index = bo_alloc_raw(context, max_rows, sizeof *r->index, label);
    r->prediction = bo_alloc_raw(context, max_rows, sizeof(double), label);
    r->error = bo_alloc_raw(context, max_rows, sizeof(double), label);
    r->column = bo_alloc_raw(context, max_rows * columns, sizeof(double), label);
    r->left_out = bo_alloc_raw(context, max_rows, sizeof(double), label);
    r->triples = bo_alloc_raw(context, 3 * max_rows, sizeof(double), label);
    if (!r->index || !r->prediction || !r->error || !r->column || !r->left_out || !r->triples) return BO_MEMORY;
    for (size_t i = 0; i < max_rows; i++) {
        if (!(left_out->weight[i] > 0)) continue;
        if (columns) memcpy(r->column + r->rows * columns, left_out->columns + i * columns, columns * sizeof(double));
        r->index[r->rows++] = i;
    }
    return BO_OK;
}

/* Predictions that differ by less than `min_range` are set to their mean: the rest of their differences is rounding, or
 * an effect of leaving rows out. */
static void level_predictions(double min_range, fitting_rows *r)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < r->rows; k++) {
        low = fmin(low, r->prediction[k]);
        high = fmax(high, r->prediction[k]);
    }
    for (size_t k = 0; high - low < min_range && k < r->rows; k++) r->prediction[k] = 0.5 * (low + high);
}

static void fill_errors(const bo_targets *targets, const bo_left_out *left_out, size_t t, double noise, fitting_rows *r)
{
    const double deviation = targets->deviation[t];
    double squares = 0;
    for (size_t k = 0; k < r->rows; k++) {
        const size_t i = r->index[k], at = i * left_out->outputs + t;
        const double error = left_out->truth[at] - left_out->prediction[at];
        const double share = left_out->fit_weight > 0 ? left_out->weight[i] / left_out->fit_weight : 0;
        const double before = error / left_out->inflation * (1 - share); /* with the row in the mean of the targets */
        r->prediction[k] = targets->mean[t] + deviation * (left_out->truth[at] - before);
        squares += before * before;
        r->error[k] =
            noise > 0 ? error * sqrt(left_out->weight[i] * (1 - left_out->leverage[i])) * (deviation / noise) : 0;
    }
    level_predictions(1e-3 * deviation * sqrt(squares / (double)r->rows), r);
}

/* By prediction, then in an order that does not depend on the scores or on qsort. */
static int compare_triples(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0] ? 1 : -1) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* Sorts the scores of output t by prediction and keeps them, or an even selection of them. */
static void keep_scores(fitting_rows *r, size_t t, bo_intervals *out)
{
    for (size_t k = 0; k < r->rows; k++) {
        r->triples[3 * k] = r->prediction[k];
        r->triples[3 * k + 1] =
            (double)(uint32_t)(k * 2654435761U); /* scrambled, since rows may be sorted by their targets */
        r->triples[3 * k + 2] = r->error[k] * exp(-r->left_out[k]);
    }
    qsort(r->triples, r->rows, 3 * sizeof(double), compare_triples);
    for (size_t k = 0; k < out->rows; k++) {
        const size_t from = k * r->rows / out->rows;
        out->prediction[t * out->rows + k] = r->triples[3 * from];
        out->score[t * out->rows + k] = r->triples[3 * from + 2];
    }
}

static bo_status intervals_create(bo_context *context, size_t rows, size_t columns, size_t outputs, bo_intervals *out)
{
    *out = (bo_intervals){
        .rows = rows < MAX_ROWS ? rows : MAX_ROWS, .knots = bo_deviation_knots(rows), .columns = columns};
    static const char label[] = "prediction intervals";
    out->knot = bo_alloc(context, outputs * out->knots, sizeof(double), label);
    out->coefficient = bo_alloc(context, outputs * (out->knots + columns), sizeof(double), label);
    out->bound = bo_alloc(context, outputs * 2, sizeof(double), label);
    out->prediction = bo_alloc(context, outputs * out->rows, sizeof(double), label);
    out->score = bo_alloc(context, outputs * out->rows, sizeof(double), label);
    return out->knot && out->coefficient && out->bound && out->prediction && out->score ? BO_OK : BO_MEMORY;
}

bo_status bo_intervals_fit(bo_context *context, const bo_targets *targets, const bo_left_out *left_out,
                           bo_machine *machine)
{
    bo_intervals *out = &machine->intervals;
    fitting_rows r;
    bo_intervals_free(out);
    bo_status status = rows_create(context, left_out, &r);
    if (status == BO_OK && r.rows > 0) {
        status = intervals_create(context, r.rows, r.columns, left_out->outputs, out);
        for (size_t t = 0; status == BO_OK && t < left_out->outputs; t++) {
            fill_errors(targets, left_out, t, machine->noise[t], &r);
            const bo_errors errors = {r.rows, r.prediction, r.error, r.column};
            status = bo_deviation_fit(context, &errors, t, out, r.left_out);
            if (status == BO_OK) keep_scores(&r, t, out);
        }
    }
    rows_free(&r);
    if (status != BO_OK) bo_intervals_free(out);
    machine->report.has_std = machine->intervals.rows > 0;
    return status;
}

/* ---- predicting -------------------------------------------------------------------------------------------------- */

void bo_intervals_deviate(const bo_machine *machine, size_t rows, const double *columns, const double *mean,
                          double *std)
{
    const bo_intervals *intervals = &machine->intervals;
    const size_t outputs = machine->report.outputs;
    for (size_t i = 0; intervals->rows > 0 && i < rows; i++)
        for (size_t t = 0; t < outputs; t++)
            std[i * outputs + t] *=
                exp(bo_deviation_log(intervals, t, mean[i * outputs + t], columns + i * intervals->columns));
}

bo_status bo_intervals_apply(bo_context *context, const bo_machine *machine, size_t rows, double level,
                             const double *mean, const double *deviation, double *low, double *high)
{
    const size_t outputs = machine->report.outputs;
    const double normal = bo_normal_quantile(0.5 + 0.5 * level);
    for (size_t t = 0; t < outputs; t++) {
        /* files of earlier releases have no scores: the errors are assumed to be normal */
        bo_quantiles quantiles = {.windows = 1, .low = {-normal}, .high = {normal}};
        if (machine->intervals.rows > 0) BO_TRY(bo_quantiles_find(context, &machine->intervals, t, level, &quantiles));
        for (size_t i = 0; i < rows; i++) {
            const size_t at = i * outputs + t;
            double below, above;
            bo_quantiles_at(&quantiles, mean[at], &below, &above);
            low[at] = mean[at] + deviation[at] * below;
            high[at] = mean[at] + deviation[at] * above;
        }
    }
    return BO_OK;
}
