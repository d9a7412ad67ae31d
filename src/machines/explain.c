/* Explanations of machines: gradients, permutation importance, partial dependence curves. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../base/trace.h"
#include "../math/linalg.h"
#include "../math/metrics.h"
#include "explain.h"
#include "prediction.h"
#include "samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is explained ------------------------------------------------------------------------------------------- */

bo_status bo_explained_make(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                            const bo_inputs *inputs, bo_explained *out)
{
    const size_t dim = machine->report.dim;
    bo_input_view view;
    BO_TRY(bo_input_view_make(context, inputs, dim, &view));
    *out = (bo_explained){.machine = machine,
                          .columns = desc->columns ? desc->columns : dim,
                          .starts = desc->starts,
                          .dim = dim,
                          .outputs = machine->report.outputs,
                          .rows = view.rows,
                          .x = view.x,
                          .ldx = view.ldx};
    BO_TRY(bo_check_reserved(context, "bo_explain_desc", desc->reserved));
    if (view.rows == 0) return bo_fail(context, BO_INVALID, "explanations: expected at least one row, found none");
    if (!view.x) return bo_fail(context, BO_UNSUPPORTED, "explanations: expected dense rows, found sparse ones");
    if (!desc->starts && out->columns != dim)
        return bo_fail(context, BO_INVALID, "explanations: expected %zu columns, one per input, found %zu; set starts",
                       dim, out->columns);
    for (size_t c = 0; desc->starts && c < out->columns; c++)
        if (desc->starts[c] >= desc->starts[c + 1])
            return bo_fail(context, BO_INVALID, "explanations: starts must increase, but starts[%zu] is %zu after %zu",
                           c + 1, desc->starts[c + 1], desc->starts[c]);
    if (desc->starts && (desc->starts[0] != 0 || desc->starts[out->columns] != dim))
        return bo_fail(context, BO_INVALID,
                       "explanations: expected starts from 0 to the number of inputs, %zu, found %zu to %zu", dim,
                       desc->starts[0], desc->starts[out->columns]);
    return BO_OK;
}

void bo_explained_copy(const bo_explained *e, size_t column, const float *from, float *to)
{
    const size_t first = bo_explained_first(e, column);
    memcpy(to + first, from + first, bo_explained_inputs(e, column) * sizeof *to);
}

enum { BATCH_ROWS = BO_SIZE(4096, 8), BATCH_NUMBERS = BO_SIZE(1 << 22, 1 << 10) };

bo_status bo_explain_batch_create(bo_context *context, const bo_explained *e, bo_explain_batch *out)
{
    const bool sparse = e->machine->scaler.place != NULL;
    const size_t capacity = bo_min(BATCH_ROWS, BATCH_NUMBERS / (e->dim + 2 * e->outputs) + 1);
    const size_t numbers = sparse ? capacity * e->dim : 0;
    *out = (bo_explain_batch){.capacity = capacity};
    out->x = bo_alloc_raw(context, capacity * e->dim, sizeof *out->x, "a block of inputs");
    out->out = bo_alloc_raw(context, capacity * e->outputs, sizeof *out->out, "predictions");
    out->start = bo_alloc_raw(context, capacity + 1, sizeof *out->start, "a block of inputs");
    out->column = bo_alloc_raw(context, numbers, sizeof *out->column, "a block of inputs");
    out->value = bo_alloc_raw(context, numbers, sizeof *out->value, "a block of inputs");
    return out->x && out->out && out->start && out->column && out->value ? BO_OK : BO_MEMORY;
}

void bo_explain_batch_free(bo_explain_batch *batch)
{
    bo_free(batch->x);
    bo_free(batch->out);
    bo_free(batch->start);
    bo_free(batch->column);
    bo_free(batch->value);
}

/* The nonzero values of the first rows. */
static bo_sparse sparse_rows(const bo_explained *e, bo_explain_batch *batch, size_t rows)
{
    size_t count = 0;
    for (size_t i = 0; i < rows; i++) {
        batch->start[i] = count;
        for (size_t j = 0; j < e->dim; j++) {
            const float value = batch->x[i * e->dim + j];
            if (value == 0) continue;
            batch->column[count] = (uint32_t)j;
            batch->value[count++] = value;
        }
    }
    batch->start[rows] = count;
    return (bo_sparse){rows, e->dim, batch->start, batch->column, batch->value};
}

/* The first rows of a batch. `sparse` receives them if the machine was fitted to sparse rows. */
static bo_inputs batch_inputs(const bo_explained *e, bo_explain_batch *batch, size_t rows, bo_sparse *sparse)
{
    if (!e->machine->scaler.place) return (bo_inputs){.rows = rows, .x = batch->x};
    *sparse = sparse_rows(e, batch, rows);
    return (bo_inputs){.sparse = sparse};
}

bo_status bo_explain_batch_run(bo_context *context, const bo_explained *e, bo_explain_batch *batch, size_t rows)
{
    bo_sparse sparse;
    const bo_inputs inputs = batch_inputs(e, batch, rows, &sparse);
    const bo_prediction numbers = {.mean = batch->out}, probabilities = {.probabilities = batch->out};
    return bo_machine_predict(context, e->machine, &inputs, e->machine->report.classes ? &probabilities : &numbers);
}

bo_status bo_explain_batch_test(bo_context *context, const bo_explained *e, bo_explain_batch *batch, size_t rows,
                                const double *y, bo_metrics *metrics)
{
    bo_sparse sparse;
    const bo_inputs inputs = batch_inputs(e, batch, rows, &sparse);
    return bo_machine_evaluate(context, e->machine, &inputs, y, metrics);
}

void bo_repeats_add(bo_repeats *running, double value)
{
    const double before = value - running->mean;
    running->mean += before / (double)++running->count;
    running->squares += before * (value - running->mean);
}

double bo_repeats_error(const bo_repeats *running)
{
    const double n = (double)running->count;
    return running->count < 2 ? NAN : sqrt(running->squares / (n - 1) / n);
}

/* ---- gradients and directions ---------------------------------------------------------------------------------------
 */

/* The largest coordinate of each vector becomes positive: eigenvectors have no sign. */
static void orient(size_t count, size_t dim, double *vectors)
{
    for (size_t k = 0; k < count; k++) {
        double *v = vectors + k * dim, top = 0;
        for (size_t j = 0; j < dim; j++)
            if (fabs(v[j]) > fabs(top)) top = v[j];
        for (size_t j = 0; top < 0 && j < dim; j++) v[j] = -v[j];
    }
}

bo_status bo_explain_gradients(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                               const bo_inputs *inputs, double *gradients, size_t directions, double *shares,
                               double *vectors)
{
    BO_REQUIRE(context, machine, desc, inputs, gradients);
    BO_REQUIRE_IF(context, directions > 0, shares, vectors);
    bo_explained e;
    BO_TRY(bo_explained_make(context, machine, desc, inputs, &e));
    if (directions > e.dim)
        return bo_fail(context, BO_INVALID, "explanations: expected at most %zu directions, the inputs, found %zu",
                       e.dim, directions);
    double *diagonal = bo_alloc_raw(context, e.dim, sizeof *diagonal, "gradients");
    double *matrix = bo_alloc_raw(context, directions ? e.dim * e.dim : 0, sizeof *matrix, "products of gradients");
    bo_status status = diagonal && matrix ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        status =
            bo_machine_gradient_products(context, machine, &(bo_input_view){.rows = e.rows, .x = e.x, .ldx = e.ldx},
                                         diagonal, directions ? matrix : NULL);
    if (status == BO_OK && directions) status = bo_eigen_top(context, e.dim, directions, matrix, shares, vectors);
    if (status == BO_OK) {
        double total = 0;
        for (size_t j = 0; j < e.dim; j++) total += diagonal[j];
        for (size_t k = 0; k < directions; k++) shares[k] = total > 0 ? fmax(shares[k], 0) / total : 0;
        orient(directions, e.dim, vectors);
        for (size_t c = 0; c < e.columns; c++) {
            double sum = 0;
            for (size_t j = 0; j < bo_explained_inputs(&e, c); j++) sum += diagonal[bo_explained_first(&e, c) + j];
            gradients[c] = sqrt(sum);
        }
    }
    bo_free(diagonal);
    bo_free(matrix);
    return status;
}

/* ---- importance by permutation ----------------------------------------------------------------------------------- */

typedef struct permuting {
    const bo_explained *e;
    bo_explain_batch batch;
    const double *y;   /* NULL: changes of predictions */
    double *unchanged; /* rows x outputs: predictions of the unmodified rows; NULL with y */
    size_t *order;     /* rows */
} permuting;

/* The errors of one pass over the rows. */
typedef struct test_scores {
    double error, accuracy;
} test_scores;

/* Fills the batch with the rows from `first` on, the column (SIZE_MAX: none) taken from the rows `order`. */
static size_t fill_batch(permuting *p, size_t first, size_t column)
{
    const bo_explained *e = p->e;
    const size_t rows = bo_min(p->batch.capacity, e->rows - first);
    for (size_t i = 0; i < rows; i++) {
        float *to = p->batch.x + i * e->dim;
        memcpy(to, e->x + (first + i) * e->ldx, e->dim * sizeof *to);
        if (column != SIZE_MAX) bo_explained_copy(e, column, e->x + p->order[first + i] * e->ldx, to);
    }
    return rows;
}

static bo_status test_rows(bo_context *context, permuting *p, size_t column, test_scores *out)
{
    const bo_fit_report *report = &p->e->machine->report;
    const size_t targets = report->classes ? 1 : report->outputs;
    const bo_metrics_desc desc = {.targets = report->classes ? 0 : targets, .classes = report->classes};
    bo_metrics *metrics;
    BO_TRY(bo_metrics_create(context, &desc, &metrics));
    bo_status status = BO_OK;
    for (size_t first = 0, rows; status == BO_OK && first < p->e->rows; first += rows) {
        rows = fill_batch(p, first, column);
        status = bo_explain_batch_test(context, p->e, &p->batch, rows, p->y + first * targets, metrics);
    }
    if (status == BO_OK)
        *out = report->classes ? (test_scores){bo_metrics_log_loss(metrics), bo_metrics_accuracy(metrics)}
                               : (test_scores){bo_metrics_rmse(metrics), NAN};
    bo_metrics_destroy(metrics);
    return status;
}

static size_t best_of(const double *scores, size_t count)
{
    size_t best = 0;
    for (size_t c = 1; c < count; c++)
        if (scores[c] > scores[best]) best = c;
    return best;
}

/* Without true values: root mean square change of numbers, or total variation distance and changed classes. */
static bo_status compare_rows(bo_context *context, permuting *p, size_t column, test_scores *out)
{
    const bo_explained *e = p->e;
    const size_t outputs = e->outputs;
    const bool classes = e->machine->report.classes > 0;
    double sum = 0, changed = 0;
    for (size_t first = 0, rows; first < e->rows; first += rows) {
        rows = fill_batch(p, first, column);
        BO_TRY(bo_explain_batch_run(context, e, &p->batch, rows));
        for (size_t i = 0; i < rows; i++) {
            const double *a = p->unchanged + (first + i) * outputs, *b = p->batch.out + i * outputs;
            for (size_t t = 0; t < outputs; t++) sum += classes ? fabs(a[t] - b[t]) / 2 : (a[t] - b[t]) * (a[t] - b[t]);
            if (classes) changed += best_of(a, outputs) != best_of(b, outputs);
        }
    }
    const double n = (double)e->rows;
    *out = classes ? (test_scores){sum / n, changed / n} : (test_scores){sqrt(sum / n / (double)outputs), NAN};
    return BO_OK;
}

/* Predictions of the unmodified rows. */
static bo_status predict_unchanged(bo_context *context, permuting *p)
{
    const bo_explained *e = p->e;
    for (size_t first = 0, rows; first < e->rows; first += rows) {
        rows = fill_batch(p, first, SIZE_MAX);
        BO_TRY(bo_explain_batch_run(context, e, &p->batch, rows));
        memcpy(p->unchanged + first * e->outputs, p->batch.out, rows * e->outputs * sizeof(double));
    }
    return BO_OK;
}

static bo_status permute_column(bo_context *context, permuting *p, const bo_explain_desc *desc, size_t column,
                                const test_scores *before, bo_column_importance *out)
{
    const size_t repeats = desc->repeats ? desc->repeats : 5;
    bo_repeats increase = {0}, accuracy = {0};
    for (size_t r = 0; r < repeats; r++) {
        /* the same permutations for every column: differences between columns are not due to them */
        bo_rng rng = bo_rng_make(desc->seed, bo_rng_stream("explain.permutation", r));
        bo_rng_permutation(&rng, p->e->rows, p->order);
        test_scores after;
        BO_TRY((p->y ? test_rows : compare_rows)(context, p, column, &after));
        bo_repeats_add(&increase, p->y ? after.error - before->error : after.error);
        bo_repeats_add(&accuracy, p->y ? before->accuracy - after.accuracy : after.accuracy);
    }
    *out = (bo_column_importance){.increase = increase.mean,
                                  .increase_error = bo_repeats_error(&increase),
                                  .accuracy = accuracy.mean,
                                  .accuracy_error = bo_repeats_error(&accuracy)};
    return BO_OK;
}

static bo_status permute_all(bo_context *context, permuting *p, const bo_explain_desc *desc, const bool *chosen,
                             bo_explain_errors *errors, bo_column_importance *importance)
{
    const size_t columns = p->e->columns;
    test_scores before = {NAN, NAN};
    BO_TRY(bo_explain_batch_create(context, p->e, &p->batch));
    if (p->y)
        BO_TRY(test_rows(context, p, SIZE_MAX, &before));
    else
        BO_TRY(predict_unchanged(context, p));
    *errors = (bo_explain_errors){.error = before.error, .accuracy = before.accuracy};
    for (size_t c = 0; c < columns; c++) {
        importance[c] = (bo_column_importance){NAN, NAN, NAN, NAN, {0}};
        if (!chosen || chosen[c]) BO_TRY(permute_column(context, p, desc, c, &before, &importance[c]));
        BO_TRY(bo_progress(context, "permuting", (double)(c + 1), (double)columns));
    }
    return BO_OK;
}

bo_status bo_explain_permutations(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                                  const bo_inputs *inputs, const double *y, const bool *chosen,
                                  bo_explain_errors *errors, bo_column_importance *importance)
{
    BO_REQUIRE(context, machine, desc, inputs, errors, importance);
    BO_SPAN(context, "machine", "permutations");
    bo_explained e;
    BO_TRY(bo_explained_make(context, machine, desc, inputs, &e));
    const size_t rows = e.rows;
    if (rows < 2) return bo_fail(context, BO_INVALID, "permutations: expected at least 2 rows, found %zu", rows);
    permuting p = {.e = &e, .y = y};
    p.order = bo_alloc_raw(context, rows, sizeof *p.order, "a permutation");
    p.unchanged = bo_alloc_raw(context, y ? 0 : rows * e.outputs, sizeof *p.unchanged, "predictions");
    bo_status status = p.order && p.unchanged ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = permute_all(context, &p, desc, chosen, errors, importance);
    bo_explain_batch_free(&p.batch);
    bo_free(p.order);
    bo_free(p.unchanged);
    return status;
}

/* ---- partial dependence ------------------------------------------------------------------------------------------ */

/* The value of a column in a row. */
typedef struct value {
    const float *inputs;
    size_t count, row;
} value;

static int compare_inputs(const value *a, const value *b)
{
    for (size_t j = 0; j < a->count; j++)
        if (a->inputs[j] != b->inputs[j]) return a->inputs[j] < b->inputs[j] ? -1 : 1;
    return 0;
}

static int compare_values(const void *a, const void *b)
{
    const value *x = a, *y = b;
    const int order = compare_inputs(x, y);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

bo_status bo_explain_values(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                            const bo_inputs *inputs, size_t column, size_t max_points, size_t *chosen, size_t *points)
{
    if (points) *points = 0;
    BO_REQUIRE(context, machine, desc, inputs, chosen, points);
    bo_explained e;
    BO_TRY(bo_explained_make(context, machine, desc, inputs, &e));
    const size_t rows = e.rows;
    if (column >= e.columns || max_points < 2)
        return bo_fail(context, BO_INVALID,
                       "values of a column: expected a column below %zu and at least 2 values, found %zu and %zu",
                       e.columns, column, max_points);
    value *values = bo_alloc_raw(context, rows, sizeof *values, "values of a column");
    if (!values) return BO_MEMORY;
    for (size_t i = 0; i < rows; i++)
        values[i] = (value){e.x + i * e.ldx + bo_explained_first(&e, column), bo_explained_inputs(&e, column), i};
    qsort(values, rows, sizeof *values, compare_values);
    size_t distinct = 1;
    for (size_t i = 1; i < rows; i++) distinct += compare_inputs(&values[i - 1], &values[i]) != 0;
    const value *last = NULL;
    const size_t candidates = distinct <= max_points ? rows : max_points;
    for (size_t k = 0; k < candidates; k++) {
        const double quantile = 0.01 + 0.98 * (double)k / (double)(max_points - 1);
        const value *v = &values[distinct <= max_points ? k : (size_t)(quantile * (double)(rows - 1) + 0.5)];
        if (last && compare_inputs(last, v) == 0) continue;
        chosen[(*points)++] = v->row;
        last = v;
    }
    bo_free(values);
    return BO_OK;
}

/* Predictions of all rows with each value of the column: curves is rows x points x outputs. */
static bo_status individual_curves(bo_context *context, const bo_explained *e, bo_explain_batch *batch, size_t column,
                                   size_t points, const size_t *values, double *curves)
{
    const size_t total = e->rows * points, outputs = e->outputs;
    for (size_t first = 0; first < total; first += batch->capacity) {
        const size_t count = bo_min(batch->capacity, total - first);
        for (size_t k = 0; k < count; k++) {
            const size_t row = (first + k) / points, point = (first + k) % points;
            float *to = batch->x + k * e->dim;
            memcpy(to, e->x + row * e->ldx, e->dim * sizeof *to);
            bo_explained_copy(e, column, e->x + values[point] * e->ldx, to);
        }
        BO_TRY(bo_explain_batch_run(context, e, batch, count));
        memcpy(curves + first * outputs, batch->out, count * outputs * sizeof *curves);
        BO_TRY(bo_progress(context, "curves", (double)(first + count), (double)total));
    }
    return BO_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* By linear interpolation. */
static double quantile_of(const double *sorted, size_t count, double quantile)
{
    const double place = quantile * (double)(count - 1);
    const size_t low = (size_t)place, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (place - (double)low) * (sorted[high] - sorted[low]);
}

/* The mean curve, and the band of the individual curves of one output, each shifted to the level of the mean curve
 * unless they are probabilities. `column`: rows numbers. */
static void summarize(size_t rows, size_t points, size_t outputs, size_t t, bool shift, double *curves, double *column,
                      double *mean, double *low, double *high)
{
    double level = 0;
    for (size_t k = 0; k < points; k++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++) sum += curves[(i * points + k) * outputs + t];
        mean[k * outputs + t] = sum / (double)rows;
        level += mean[k * outputs + t] / (double)points;
    }
    for (size_t i = 0; shift && i < rows; i++) {
        double mean_of_row = 0;
        for (size_t k = 0; k < points; k++) mean_of_row += curves[(i * points + k) * outputs + t] / (double)points;
        for (size_t k = 0; k < points; k++) curves[(i * points + k) * outputs + t] += level - mean_of_row;
    }
    for (size_t k = 0; (low || high) && k < points; k++) {
        for (size_t i = 0; i < rows; i++) column[i] = curves[(i * points + k) * outputs + t];
        qsort(column, rows, sizeof *column, compare_numbers);
        if (low) low[k * outputs + t] = quantile_of(column, rows, 0.1);
        if (high) high[k * outputs + t] = quantile_of(column, rows, 0.9);
    }
}

bo_status bo_explain_curve(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                           const bo_inputs *inputs, size_t column, size_t points, const size_t *values, double *mean,
                           double *low, double *high)
{
    enum { SMALL = 1 << 24 };
    BO_REQUIRE(context, machine, desc, inputs, values, mean);
    BO_SPAN(context, "machine", "curve");
    bo_explained e;
    BO_TRY(bo_explained_make(context, machine, desc, inputs, &e));
    const size_t rows = e.rows;
    if (column >= e.columns)
        return bo_fail(context, BO_INVALID, "curves: expected a column below %zu, found %zu", e.columns, column);
    for (size_t k = 0; k < points; k++)
        if (values[k] >= rows)
            return bo_fail(context, BO_INVALID, "curves: value %zu is row %zu, but there are %zu rows", k, values[k],
                           rows);
    const double bytes = 8 * (double)rows * (double)points * (double)e.outputs;
    if (bytes >= SMALL) BO_TRY(bo_check_memory(context, "curves", bytes, bo_process_memory(), "use fewer rows"));
    bo_explain_batch batch;
    bo_status status = bo_explain_batch_create(context, &e, &batch);
    double *curves = bo_alloc_raw(context, rows * points * e.outputs, sizeof *curves, "curves");
    double *numbers = bo_alloc_raw(context, rows, sizeof *numbers, "curves");
    if (!curves || !numbers) status = BO_MEMORY;
    if (status == BO_OK) status = individual_curves(context, &e, &batch, column, points, values, curves);
    for (size_t t = 0; status == BO_OK && t < e.outputs; t++)
        summarize(rows, points, e.outputs, t, machine->report.classes == 0, curves, numbers, mean, low, high);
    bo_explain_batch_free(&batch);
    bo_free(curves);
    bo_free(numbers);
    return status;
}
