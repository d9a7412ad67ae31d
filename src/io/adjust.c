/* Ridge regression of the targets on the inputs, from sums of products per fold. */
#include "adjust.h"

#include <math.h>
#include <string.h>

enum {
    BO_ADJUST_INPUTS = 64
}; /* with more inputs no model is fitted: the time of the sums is quadratic in their number */
static const double ridge = 1e-3; /* relative to the variance of each input; one-hot columns are linearly dependent */

static size_t row_length(const bo_adjustment *a)
{
    return 1 + a->inputs + a->width;
}

static void choose_inputs(const bo_schema *schema, bo_adjustment *a)
{
    for (size_t i = 0; i < schema->column_count; ++i) {
        const bo_column *column = &schema->columns[i];
        if (!bo_column_is_input(column) || column->kind == BO_COLUMN_ENCODED) continue;
        const size_t count = bo_column_width(schema, column) + column->indicator;
        for (size_t k = 0; k < count; ++k, ++a->inputs)
            if (a->inputs < BO_ADJUST_INPUTS) a->columns[a->inputs] = column->first + k;
    }
    if (a->inputs > BO_ADJUST_INPUTS) a->inputs = 0;
}

bo_status bo_adjustment_create(bo_context *context, const bo_schema *schema, size_t folds, bo_adjustment *out)
{
    *out = (bo_adjustment){.folds = folds, .width = bo_schema_code_width(schema)};
    out->columns = bo_alloc(context, BO_ADJUST_INPUTS, sizeof *out->columns, "a linear model");
    if (!out->columns) return BO_MEMORY;
    choose_inputs(schema, out);
    const size_t length = row_length(out), sets = folds + 1;
    out->origin = bo_alloc(context, length, sizeof(double), "a linear model");
    out->row = bo_alloc(context, length, sizeof(double), "a linear model");
    out->moments = bo_alloc(context, folds * length * length, sizeof(double), "a linear model");
    out->constant = bo_alloc(context, sets * out->width, sizeof(double), "a linear model");
    out->means = bo_alloc(context, sets * out->width, sizeof(double), "a linear model");
    out->coefficients = bo_alloc(context, sets * out->width * out->inputs, sizeof(double), "a linear model");
    return out->origin && out->row && out->moments && out->constant && out->means && out->coefficients ? BO_OK
                                                                                                       : BO_MEMORY;
}

void bo_adjustment_free(bo_adjustment *a)
{
    bo_free(a->columns);
    bo_free(a->origin);
    bo_free(a->row);
    bo_free(a->moments);
    bo_free(a->constant);
    bo_free(a->means);
    bo_free(a->coefficients);
    *a = (bo_adjustment){0};
}

void bo_adjustment_add(bo_adjustment *a, size_t fold, const float *x, const double *targets)
{
    const size_t length = row_length(a);
    double *row = a->row, *sums = a->moments + fold * length * length;
    row[0] = 1;
    for (size_t i = 0; i < a->inputs; ++i) row[1 + i] = (double)x[a->columns[i]];
    memcpy(row + 1 + a->inputs, targets, a->width * sizeof *row);
    if (!a->started) memcpy(a->origin + 1, row + 1, (length - 1) * sizeof *row);
    a->started = true;
    for (size_t i = 1; i < length; ++i) row[i] -= a->origin[i];
    for (size_t i = 0; i < length; ++i)
        for (size_t j = i; j < length; ++j) sums[i * length + j] += row[i] * row[j];
}

/* Replaces the lower triangle of a positive definite matrix by its Cholesky factor. False if it is not. */
static bool factor(double *c, size_t n)
{
    for (size_t j = 0; j < n; ++j) {
        for (size_t i = j; i < n; ++i) {
            double sum = c[i * n + j];
            for (size_t k = 0; k < j; ++k) sum -= c[i * n + k] * c[j * n + k];
            if (i == j && !(sum > 0)) return false;
            c[i * n + j] = i == j ? sqrt(sum) : sum / c[j * n + j];
        }
    }
    return true;
}

static void solve(const double *c, size_t n, double *b)
{
    for (size_t i = 0; i < n; ++i) {
        for (size_t k = 0; k < i; ++k) b[i] -= c[i * n + k] * b[k];
        b[i] /= c[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; ++k) b[i] -= c[k * n + i] * b[k];
        b[i] /= c[i * n + i];
    }
}

/* The model of one set, from the sums of its rows, `m`; `c` is a workspace of inputs² numbers. */
static void solve_set(bo_adjustment *a, size_t set, const double *m, double *c)
{
    const size_t n = a->inputs, length = row_length(a);
    const double rows = m[0];
    if (!(rows > 0)) return;
    for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j <= i; ++j) c[i * n + j] = m[(1 + j) * length + 1 + i] - m[1 + i] * m[1 + j] / rows;
        const double variance = c[i * n + i];
        /* The coefficient of a constant input is 0. */
        c[i * n + i] = variance > 1e-12 * m[(1 + i) * length + 1 + i] ? (1 + ridge) * variance : INFINITY;
    }
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < i; ++j)
            if (isinf(c[i * n + i]) || isinf(c[j * n + j])) c[i * n + j] = 0;
    for (size_t i = 0; i < n; ++i)
        if (isinf(c[i * n + i])) c[i * n + i] = 1;
    const bool solvable = factor(c, n);
    for (size_t k = 0; k < a->width; ++k) {
        const size_t target = 1 + n + k, at = set * a->width + k;
        double *coefficients = a->coefficients + at * n;
        for (size_t i = 0; i < n; ++i)
            coefficients[i] = solvable ? m[(1 + i) * length + target] - m[1 + i] * m[target] / rows : 0;
        if (solvable) solve(c, n, coefficients);
        a->means[at] = a->origin[target] + m[target] / rows;
        a->constant[at] = a->means[at];
        for (size_t i = 0; i < n; ++i) {
            if (!isfinite(coefficients[i])) coefficients[i] = 0;
            a->constant[at] -= coefficients[i] * (a->origin[1 + i] + m[1 + i] / rows);
        }
    }
}

bo_status bo_adjustment_solve(bo_context *context, bo_adjustment *a)
{
    const size_t size = row_length(a) * row_length(a);
    double *m = bo_alloc_raw(context, size, sizeof *m, "a linear model");
    double *c = bo_alloc_raw(context, a->inputs * a->inputs, sizeof *c, "a linear model");
    for (size_t set = 0; m && c && set <= a->folds; ++set) {
        memset(m, 0, size * sizeof *m);
        for (size_t fold = 0; fold < a->folds; ++fold)
            for (size_t i = 0; fold != set && i < size; ++i) m[i] += a->moments[fold * size + i];
        solve_set(a, set, m, c);
    }
    const bool done = m && c;
    bo_free(m);
    bo_free(c);
    return done ? BO_OK : BO_MEMORY;
}

double bo_adjustment_residual(const bo_adjustment *a, size_t set, const float *x, double target, size_t k)
{
    const size_t at = set * a->width + k;
    double residual = target - a->constant[at];
    for (size_t i = 0; i < a->inputs; ++i) residual -= a->coefficients[at * a->inputs + i] * (double)x[a->columns[i]];
    return residual;
}
