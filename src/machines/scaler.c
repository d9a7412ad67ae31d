/* Scaling of rows: statistics of the training data that a model keeps. Columns are standardized, or mapped to normal
 * quantiles by their ranks, and then mapped by a metric. */
#include "../base/base.h"
#include "../device/cpu/kernels.h"
#include "../io/schema.h"
#include "../io/sparse.h"
#include "../math/metric.h"
#include "../math/special.h"
#include "samples.h"
#include "scaler.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

void bo_scaler_free(bo_scaler *scaler)
{
    bo_free(scaler->mean);
    bo_free(scaler->factor);
    bo_free(scaler->place);
    bo_free(scaler->knots);
    bo_free(scaler->origin);
    bo_free(scaler->shift);
    bo_metric_free(&scaler->metric);
    *scaler = (bo_scaler){0};
}

typedef struct moments_job {
    const bo_samples *samples;
    double *mean, *variance;
} moments_job;

enum { COLUMNS = BO_SIZE(64, 4) }; /* columns per task: whole cache lines of every row */

/* Mean and variance of some columns in two passes, accurate also for columns far from zero. */
static void column_moments(void *arg, size_t index, int worker)
{
    (void)worker;
    const moments_job *job = arg;
    size_t dim = job->samples->dim, rows = job->samples->rows, first = index * COLUMNS;
    size_t count = dim - first < COLUMNS ? dim - first : COLUMNS;
    double mean[COLUMNS] = {0}, squares[COLUMNS] = {0}, total = 0;
    const float *x = job->samples->x + first, *weights = job->samples->weights;
    for (size_t i = 0; i < rows; i++) {
        double w = weights ? (double)weights[i] : 1;
        total += w;
        for (size_t j = 0; j < count; j++) mean[j] += w * (double)x[i * dim + j];
    }
    for (size_t j = 0; j < count; j++) mean[j] /= total;
    for (size_t i = 0; i < rows; i++) {
        double w = weights ? (double)weights[i] : 1;
        for (size_t j = 0; j < count; j++) {
            double d = (double)x[i * dim + j] - mean[j];
            squares[j] += w * d * d;
        }
    }
    for (size_t j = 0; j < count; j++) {
        job->mean[first + j] = mean[j];
        job->variance[first + j] = squares[j] / total;
    }
}

/* Sums over the numbers of sparse rows; the zeros are added at the end: Σ w (x - mean)² = Σ' w ((x - mean)² - mean²) +
 * mean² Σ w would cancel, so the zeros are counted by their weight. */
static bo_status sparse_moments(bo_context *context, const bo_samples *samples, double *mean, double *variance)
{
    const bo_sparse *x = samples->sparse;
    double *present = bo_alloc(context, samples->dim, sizeof *present, "the scaling"), total = 0;
    if (!present) return BO_MEMORY;
    for (size_t i = 0; i < x->rows; i++) {
        double w = samples->weights ? (double)samples->weights[i] : 1;
        total += w;
        for (size_t k = x->start[i]; k < x->start[i + 1]; k++) {
            mean[x->column[k]] += w * (double)x->value[k];
            present[x->column[k]] += w;
        }
    }
    for (size_t j = 0; j < samples->dim; j++) mean[j] /= total;
    for (size_t i = 0; i < x->rows; i++)
        for (size_t k = x->start[i]; k < x->start[i + 1]; k++) {
            double d = (double)x->value[k] - mean[x->column[k]];
            variance[x->column[k]] += (samples->weights ? (double)samples->weights[i] : 1) * d * d;
        }
    for (size_t j = 0; j < samples->dim; j++)
        variance[j] = (variance[j] + fmax(total - present[j], 0) * mean[j] * mean[j]) / total;
    bo_free(present);
    return BO_OK;
}

/* Predictions far from all training rows are erratic, so scaled inputs are clamped. */
static const double farthest = 5;
/* Factors of columns and differences from the mean stay in the range of float32. */
static const double widest_deviation = 1e37;

/* Computes the factors from the moments of the columns. */
static bo_status set_factors(bo_context *context, const bo_samples *samples, const double *mean, double *variance,
                             bo_scaler *out)
{
    /* kernels of products depend on constant columns; sparse rows have kernels of differences, which do not */
    const bool keeps_all = out->kind == BO_SCALING_NONE && !samples->sparse;
    double total = 0;
    size_t varying = 0;
    for (size_t j = 0; j < out->dim; j++) {
        /* a variance caused only by rounding counts as constant */
        if (variance[j] <= 1e-12 * mean[j] * mean[j]) variance[j] = 0;
        out->mean[j] = out->kind == BO_SCALING_NONE ? 0 : (float)mean[j];
        total += variance[j];
        varying += variance[j] > 0;
    }
    if (varying == 0)
        return bo_fail(context, BO_INVALID,
                       "expected input columns that vary, found only constant columns in %zu training rows",
                       samples->rows);
    for (size_t j = 0; j < out->dim; j++) {
        double scale = keeps_all                        ? 1
                       : variance[j] == 0               ? 0
                       : out->kind == BO_SCALING_NONE   ? 1
                       : out->kind == BO_SCALING_COMMON ? sqrt((double)out->dim / total)
                                                        : 1 / sqrt(variance[j]);
        out->factor[j] = (float)scale;
        if (scale != 0 && !(scale >= 1 / widest_deviation && scale <= widest_deviation))
            return bo_fail(
                context, BO_INVALID,
                "input column %zu: expected a standard deviation between %g and %g, which float32 can scale, "
                "found %g; multiply the column by a constant",
                j, 1 / widest_deviation, widest_deviation, sqrt(variance[j]));
    }
    return BO_OK;
}

void bo_scaler_report(bo_context *context, const bo_scaler *scaler, size_t sampled, const bo_schema *schema)
{
    enum { NAMES = 10, NAME_SIZE = 64 };
    char names[NAMES * NAME_SIZE] = "";
    size_t constant = 0, used = 0;
    for (size_t j = 0; j < scaler->dim; j++) {
        if (scaler->factor[j] != 0 || constant++ >= NAMES) continue;
        const char *name = bo_schema_input(schema, j), *comma = used ? ", " : "";
        used += (size_t)(name ? snprintf(names + used, NAME_SIZE, "%s'%.50s'", comma, name)
                              : snprintf(names + used, NAME_SIZE, "%s%zu", comma, j));
    }
    char more[40] = "", where[80] = "the training rows";
    if (sampled) snprintf(where, sizeof where, "a sample of %zu training rows", sampled);
    if (constant > NAMES) snprintf(more, sizeof more, " and %zu more", constant - NAMES);
    if (constant)
        bo_log(context, BO_LOG_INFO, "ignoring %zu of %zu input columns that are constant in %s: %s%s", constant,
               scaler->dim, where, names, more);
}

/* ---- origins ----------------------------------------------------------------------------------------------------- */

static bool has_origins(const bo_scaler *scaler, const bo_schema *schema)
{
    return schema && bo_schema_describe(schema)->inputs == scaler->dim && bo_schema_describe(schema)->origins;
}

/* out := from + sign * the origins of the schema, or 0 if the schema is NULL or has no origins. */
static bo_status add_origins(bo_context *context, const bo_scaler *scaler, const double *from, int sign,
                             const bo_schema *schema, double **out)
{
    const bool any = has_origins(scaler, schema);
    *out = bo_alloc_raw(context, scaler->dim, sizeof **out, "origins of columns");
    if (!*out) return BO_MEMORY;
    for (size_t j = 0; j < scaler->dim; j++)
        (*out)[j] = (from ? from[j] : 0) + (any ? sign * bo_schema_describe(schema)->origins[j] : 0);
    return BO_OK;
}

bo_status bo_scaler_shift_of_file(bo_context *context, const bo_scaler *scaler, const bo_schema *schema, double **out)
{
    *out = NULL;
    if (!scaler->origin) return BO_OK;
    BO_TRY(add_origins(context, scaler, scaler->origin, -1, schema, out));
    for (size_t j = 0; j < scaler->dim; j++)
        if ((*out)[j] != 0) return BO_OK;
    bo_free(*out);
    *out = NULL;
    return BO_OK;
}

bo_status bo_scaler_resolve(bo_context *context, const bo_schema *schema, bool raw, bo_scaler *scaler)
{
    assert(!scaler->origin);
    if (!scaler->shift && !has_origins(scaler, schema)) return BO_OK;
    BO_TRY(add_origins(context, scaler, scaler->shift, 1, schema, &scaler->origin));
    if (!raw) return BO_OK;
    bo_free(scaler->shift);
    return add_origins(context, scaler, scaler->origin, 1, NULL, &scaler->shift);
}

/* A number of a row to scale, converted to the format of the training rows. */
static float reduce(const bo_scaler *scaler, size_t column, float x)
{
    if (!scaler->shift) return x;
    return (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, (double)x - scaler->shift[column]));
}

/* s(x) of one number. */
static float scale_number(const bo_scaler *scaler, size_t column, float x)
{
    float limit = (float)scaler->limit, scaled = (x - scaler->mean[column]) * scaler->factor[column];
    return limit > 0 ? fmaxf(-limit, fminf(limit, scaled)) : scaled;
}

/* ---- quantiles --------------------------------------------------------------------------------------------------- */

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The knots of one column: values of rank (i + 1/2)/BO_KNOTS. A column of at most two values is scaled like COLUMNS;
 * its knots descend, which marks it. */
static void fill_knots(size_t rows, float *sorted, float *knots)
{
    if (rows == 0) { /* no row of positive weight among those looked at */
        for (size_t k = 0; k < BO_KNOTS; k++) knots[k] = -(float)k;
        return;
    }
    qsort(sorted, rows, sizeof *sorted, compare_floats);
    size_t distinct = rows > 0;
    for (size_t i = 1; i < rows && distinct < 3; i++) distinct += sorted[i] != sorted[i - 1];
    for (size_t k = 0; k < BO_KNOTS; k++) knots[k] = sorted[(size_t)(((double)k + 0.5) / BO_KNOTS * (double)rows)];
    if (distinct > 2 && knots[0] < knots[BO_KNOTS - 1]) return;
    for (size_t k = 0; k < BO_KNOTS; k++) knots[k] = -(float)k;
}

static bo_status fit_knots(bo_context *context, const bo_samples *samples, bo_scaler *out)
{
    enum { MAX_ROWS = 100000 }; /* evenly spaced: the quantiles of more rows are the same */
    size_t rows = bo_min(samples->rows, MAX_ROWS), dim = samples->dim;
    float *column = bo_alloc_raw(context, rows, sizeof *column, "a column");
    out->knots = bo_alloc_raw(context, dim * BO_KNOTS, sizeof *out->knots, "the quantiles of the columns");
    bo_status status = column && out->knots ? BO_OK : BO_MEMORY;
    for (size_t j = 0; status == BO_OK && j < dim; j++) {
        size_t count = 0;
        for (size_t i = 0; i < rows; i++) {
            const size_t row = (size_t)((double)i * (double)samples->rows / (double)rows);
            if (!samples->weights || samples->weights[row] > 0) column[count++] = samples->x[row * dim + j];
        }
        fill_knots(count, column, out->knots + j * BO_KNOTS);
    }
    bo_free(column);
    return status;
}

/* The rank of x among the knots, in (0, 1): the middle of equal knots, and linear between knots. */
static double rank_of(const float *knots, float x)
{
    size_t below = 0, upto = 0;
    for (size_t step = BO_KNOTS; step > 0; step /= 2) {
        while (below + step <= BO_KNOTS && knots[below + step - 1] < x) below += step;
        while (upto + step <= BO_KNOTS && knots[upto + step - 1] <= x) upto += step;
    }
    double at = 0.5 * (double)(below + upto); /* in knots */
    if (below == 0 && upto == 0) at = 0.25;
    if (below == BO_KNOTS) at = BO_KNOTS - 0.25;
    if (upto == below && below > 0 && below < BO_KNOTS) {
        double left = (double)knots[below - 1], right = (double)knots[below];
        at = (double)below - 0.5 + ((double)x - left) / (right - left);
    }
    return at / BO_KNOTS;
}

static void quantile_row(const bo_scaler *scaler, float *row, const float *x)
{
    for (size_t j = 0; j < scaler->dim; j++) {
        const float *knots = scaler->knots + j * BO_KNOTS;
        if (scaler->factor[j] == 0)
            row[j] = 0;
        else if (knots[0] > knots[BO_KNOTS - 1])
            row[j] = scale_number(scaler, j, x[j]);
        else
            row[j] = (float)bo_normal_quantile(rank_of(knots, x[j]));
    }
}

/* ---- fit and apply ----------------------------------------------------------------------------------------------- */

bo_status bo_scaler_fit(bo_context *context, bo_scaling kind, const bo_samples *samples, bo_scaler *out)
{
    size_t dim = samples->dim;
    if (kind == BO_SCALING_AUTO) kind = samples->common_unit ? BO_SCALING_COMMON : BO_SCALING_COLUMNS;
    *out = (bo_scaler){.kind = kind,
                       .dim = dim,
                       .kept = dim,
                       .limit = kind == BO_SCALING_COLUMNS || kind == BO_SCALING_QUANTILE ? farthest : 0};
    assert(out->kind != BO_SCALING_AUTO && out->limit >= 0);
    out->mean = bo_alloc(context, dim, sizeof *out->mean, "the scaling");
    out->factor = bo_alloc(context, dim, sizeof *out->factor, "the scaling");
    double *variance = bo_alloc(context, 2 * dim, sizeof *variance, "the scaling"),
           *mean = variance ? variance + dim : NULL;
    bo_status status = out->mean && out->factor && variance ? BO_OK : BO_MEMORY;
    if (status == BO_OK && samples->sparse) {
        status = sparse_moments(context, samples, mean, variance);
    } else if (status == BO_OK) {
        moments_job job = {samples, mean, variance};
        bo_parallel(context, (dim + COLUMNS - 1) / COLUMNS, column_moments, &job);
    }
    if (status == BO_OK) status = set_factors(context, samples, mean, variance, out);
    if (status == BO_OK && kind == BO_SCALING_QUANTILE) status = fit_knots(context, samples, out);
    if (status == BO_OK) status = bo_scaler_finish(context, samples->sparse != NULL, out);
    if (status == BO_OK) status = bo_scaler_resolve(context, samples->schema, false, out);
    bo_free(variance);
    if (status != BO_OK) bo_scaler_free(out);
    return status;
}

bo_status bo_scaler_finish(bo_context *context, bool sparse, bo_scaler *scaler)
{
    scaler->kept = scaler->metric.a ? scaler->metric.rank : scaler->dim;
    if (!sparse) return BO_OK;
    assert(!scaler->knots && !scaler->metric.a);
    scaler->place = bo_alloc_raw(context, scaler->dim, sizeof *scaler->place, "the scaling");
    if (!scaler->place) return BO_MEMORY;
    scaler->kept = 0;
    for (size_t j = 0; j < scaler->dim; j++)
        scaler->place[j] = scaler->factor[j] != 0 ? (uint32_t)scaler->kept++ : UINT32_MAX;
    return BO_OK;
}

bo_status bo_scaler_copy(bo_context *context, const bo_scaler *scaler, bo_scaler *out)
{
    size_t dim = scaler->dim, knots = scaler->knots ? dim * BO_KNOTS : 0;
    *out = (bo_scaler){.kind = scaler->kind, .dim = dim, .limit = scaler->limit};
    out->mean = bo_alloc_raw(context, dim, sizeof *out->mean, "the scaling");
    out->factor = bo_alloc_raw(context, dim, sizeof *out->factor, "the scaling");
    if (knots) out->knots = bo_alloc_raw(context, knots, sizeof *out->knots, "the quantiles of the columns");
    bo_status status = out->mean && out->factor && (!knots || out->knots) ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        memcpy(out->mean, scaler->mean, dim * sizeof *out->mean);
        memcpy(out->factor, scaler->factor, dim * sizeof *out->factor);
        if (knots) memcpy(out->knots, scaler->knots, knots * sizeof *out->knots);
        status = bo_metric_copy(context, &scaler->metric, &out->metric);
    }
    if (status == BO_OK && scaler->origin) status = add_origins(context, scaler, scaler->origin, 1, NULL, &out->origin);
    if (status == BO_OK && scaler->shift) status = add_origins(context, scaler, scaler->shift, 1, NULL, &out->shift);
    if (status == BO_OK) status = bo_scaler_finish(context, scaler->place != NULL, out);
    if (status != BO_OK) bo_scaler_free(out);
    return status;
}

bo_status bo_scaler_set_metric(bo_context *context, bo_scaler *scaler, const bo_metric *metric)
{
    assert(!scaler->place && (!metric || metric->dim == scaler->dim));
    bo_metric copy = {0};
    if (metric) BO_TRY(bo_metric_copy(context, metric, &copy));
    bo_metric_free(&scaler->metric);
    scaler->metric = copy;
    return bo_scaler_finish(context, false, scaler);
}

typedef struct apply_job {
    const bo_scaler *scaler;
    const bo_kernels *kernels;
    const bo_input_view *inputs;
    float *out;
    float *rows; /* one row of `dim` numbers per worker, before the metric; NULL without a metric */
} apply_job;

enum { APPLY_ROWS = BO_SIZE(64, 4) };

/* A dense row for a scaler of sparse rows: s(x) - s(0) of the kept columns. */
static void apply_compactly(const bo_scaler *scaler, const float *x, float *out)
{
    for (size_t j = 0; j < scaler->dim; j++)
        if (scaler->place[j] != UINT32_MAX)
            out[scaler->place[j]] = scale_number(scaler, j, reduce(scaler, j, x[j])) - scale_number(scaler, j, 0);
}

static void apply_rows(void *arg, size_t index, int worker)
{
    const apply_job *job = arg;
    const bo_input_view *inputs = job->inputs;
    const bo_scaler *scaler = job->scaler;
    size_t end = (index + 1) * APPLY_ROWS < inputs->rows ? (index + 1) * APPLY_ROWS : inputs->rows;
    float limit = (float)scaler->limit;
    for (size_t i = index * APPLY_ROWS; i < end; i++) {
        float *out = job->out + i * scaler->kept;
        const float *x = inputs->x + i * inputs->ldx;
        if (scaler->place) {
            apply_compactly(scaler, x, out);
            continue;
        }
        float *row = job->rows ? job->rows + (size_t)worker * scaler->dim : out;
        if (scaler->shift) {
            for (size_t j = 0; j < scaler->dim; j++) row[j] = reduce(scaler, j, x[j]);
            x = row;
        }
        if (scaler->knots)
            quantile_row(scaler, row, x);
        else
            job->kernels->affine(scaler->dim, x, scaler->mean, scaler->factor, row);
        for (size_t j = 0; limit > 0 && j < scaler->dim; j++) row[j] = fmaxf(-limit, fminf(limit, row[j]));
        if (job->rows) bo_metric_row(&scaler->metric, row, out);
    }
}

bo_status bo_scaler_apply(bo_context *context, const bo_scaler *scaler, const bo_input_view *inputs, float *out)
{
    assert(inputs->x || !inputs->rows);
    apply_job job = {scaler, bo_context_kernels(context), inputs, out, NULL};
    const bool mapped = scaler->metric.a != NULL;
    if (mapped)
        job.rows = bo_alloc_raw(context, (size_t)bo_context_threads(context) * scaler->dim, sizeof(float), "rows");
    if (mapped && !job.rows) return BO_MEMORY;
    bo_parallel(context, (inputs->rows + APPLY_ROWS - 1) / APPLY_ROWS, apply_rows, &job);
    bo_free(job.rows);
    return BO_OK;
}

/* The columns, ascending, in which a zero of a sparse row is not a zero of the scaled row. */
static bo_status list_shifted(bo_context *context, const bo_scaler *scaler, size_t **out, size_t *count)
{
    *count = 0;
    *out = bo_alloc_raw(context, scaler->dim, sizeof **out, "shifted columns");
    if (!*out) return BO_MEMORY;
    for (size_t j = 0; scaler->shift && j < scaler->dim; j++)
        if (scaler->shift[j] != 0 && scaler->place[j] != UINT32_MAX) (*out)[(*count)++] = j;
    return BO_OK;
}

static void put_scaled(const bo_scaler *scaler, size_t column, float x, bo_sparse_block *out)
{
    if (scaler->place[column] == UINT32_MAX) return;
    const float scaled = scale_number(scaler, column, reduce(scaler, column, x)) - scale_number(scaler, column, 0);
    bo_sparse_put(out, scaler->place[column], scaled);
}

bo_status bo_scaler_apply_sparse(bo_context *context, const bo_scaler *scaler, const bo_sparse *x,
                                 bo_sparse_block **out)
{
    assert(scaler->place);
    size_t *shifted, count;
    BO_TRY(list_shifted(context, scaler, &shifted, &count));
    bo_status status = bo_sparse_create(context, scaler->kept, out);
    for (size_t i = 0; status == BO_OK && i < x->rows; i++) {
        status = bo_sparse_reserve(context, *out, x->start[i + 1] - x->start[i] + count);
        if (status != BO_OK) {
            bo_sparse_destroy(&(*out)->rows);
            *out = NULL;
            break;
        }
        size_t next = 0;
        for (size_t k = x->start[i]; k < x->start[i + 1]; k++) {
            const size_t j = x->column[k];
            while (next < count && shifted[next] < j) put_scaled(scaler, shifted[next++], 0, *out);
            next += next < count && shifted[next] == j;
            put_scaled(scaler, j, x->value[k], *out);
        }
        while (next < count) put_scaled(scaler, shifted[next++], 0, *out);
        bo_sparse_end_row(*out);
    }
    bo_free(shifted);
    return status;
}
