/* Training rows: checks, subsets, and targets as the right-hand side of the linear system. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../features/inputs.h"
#include "../io/sparse.h"
#include "samples.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Leaves a margin for differences of targets and for coefficients. */
static const double largest_target = 1e290;

bo_input_view bo_samples_inputs(const bo_samples *samples, size_t first, size_t rows)
{
    if (samples->sparse) return (bo_input_view){.rows = rows, .sparse = bo_sparse_slice(samples->sparse, first, rows)};
    return (bo_input_view){.rows = rows, .x = samples->x + first * samples->dim, .ldx = samples->dim};
}

bo_samples bo_samples_slice(const bo_samples *samples, size_t first, size_t rows, bo_sparse *view)
{
    bo_samples slice = *samples;
    slice.rows = rows;
    slice.y += first * samples->targets;
    if (slice.weights) slice.weights += first;
    if (slice.x) slice.x += first * samples->dim;
    if (slice.sparse) *view = bo_sparse_slice(samples->sparse, first, rows), slice.sparse = view;
    return slice;
}

/* True if no exponent has the value of infinity and NaN. Integers, so that compilers vectorize it. */
static bool all_finite(size_t count, const float *x)
{
    const uint32_t exponent = 0x7F800000;
    uint32_t found = 0, bits;
    for (size_t k = 0; k < count; k++) {
        memcpy(&bits, &x[k], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return !found;
}

bo_status bo_input_view_make(bo_context *context, const bo_inputs *inputs, size_t dim, bo_input_view *out)
{
    BO_TRY(bo_check_inputs(context, inputs, dim, ", as in the fit"));
    *out = (bo_input_view){.rows = bo_inputs_rows(inputs)};
    if (inputs->sparse)
        out->sparse = *inputs->sparse;
    else
        out->x = inputs->x, out->ldx = bo_inputs_stride(inputs, dim);
    return BO_OK;
}

bo_status bo_input_view_check_finite(bo_context *context, const bo_input_view *inputs, size_t first, size_t rows,
                                     size_t dim)
{
    for (size_t i = first; i < first + rows; i++) {
        const bool dense = inputs->x != NULL;
        if (dense && all_finite(dim, inputs->x + i * inputs->ldx)) continue;
        const size_t begin = dense ? 0 : inputs->sparse.start[i], end = dense ? dim : inputs->sparse.start[i + 1];
        for (size_t k = begin; k < end; k++) {
            const float value = dense ? inputs->x[i * inputs->ldx + k] : inputs->sparse.value[k];
            const size_t column = dense ? k : inputs->sparse.column[k];
            if (!isfinite(value))
                return bo_fail(context, BO_INVALID, "row %zu, column %zu: expected a finite number, found %g", i,
                               column, (double)value);
        }
    }
    return BO_OK;
}

static bo_status check_row(bo_context *context, const bo_samples *samples, const bo_input_view *inputs, size_t i)
{
    BO_TRY(bo_input_view_check_finite(context, inputs, i, 1, samples->dim));
    for (size_t t = 0; samples->y && t < samples->targets; t++) {
        double y = samples->y[i * samples->targets + t];
        if (!isfinite(y)) return bo_fail(context, BO_INVALID, "row %zu: expected a finite target, found %g", i, y);
        if (!samples->classes && fabs(y) > largest_target)
            return bo_fail(context, BO_INVALID,
                           "row %zu: expected a target between -%g and %g, found %g; divide the target by a constant",
                           i, largest_target, largest_target, y);
        if (samples->classes && (y < 0 || y >= (double)samples->classes || y != floor(y)))
            return bo_fail(context, BO_INVALID, "row %zu: expected a class from 0 to %zu, found %g", i,
                           samples->classes - 1, y);
    }
    if (samples->weights && !(samples->weights[i] >= 0 && isfinite(samples->weights[i])))
        return bo_fail(context, BO_INVALID, "row %zu: expected a weight >= 0, found %g", i,
                       (double)samples->weights[i]);
    return BO_OK;
}

bo_status bo_samples_check(bo_context *context, const bo_samples *samples)
{
    BO_TRY(bo_check_reserved(context, "bo_samples", samples->reserved));
    if (samples->dim == 0) return bo_fail(context, BO_INVALID, "expected input columns, found none");
    if (samples->classes && samples->targets != 1)
        return bo_fail(context, BO_INVALID, "expected one target column for classification, found %zu",
                       samples->targets);
    if (samples->targets == 0 || !samples->y) return bo_fail(context, BO_INVALID, "expected a target, found none");
    if (samples->rows > 0 && !samples->x && !samples->sparse)
        return bo_fail(context, BO_INVALID, "samples: x is NULL, but there are %zu rows", samples->rows);
    if (samples->classes == 1) return bo_fail(context, BO_INVALID, "expected at least 2 classes, found 1");
    if (samples->x && samples->sparse)
        return bo_fail(context, BO_INVALID, "expected either dense or sparse inputs, found both");
    if (samples->sparse && (samples->sparse->rows != samples->rows || samples->sparse->dim != samples->dim))
        return bo_fail(context, BO_INVALID, "expected sparse inputs of %zu rows x %zu columns, found %zu x %zu",
                       samples->rows, samples->dim, samples->sparse->rows, samples->sparse->dim);
    if (samples->sparse) BO_TRY(bo_sparse_check(context, samples->sparse));
    const bo_input_view inputs = bo_samples_inputs(samples, 0, samples->rows);
    for (size_t i = 0; i < samples->rows; i++) BO_TRY(check_row(context, samples, &inputs, i));
    return BO_OK;
}

void bo_data_get_samples(const bo_data *data, bo_samples *out)
{
    if (!data || !out) return;
    *out = (bo_samples){.rows = data->rows,
                        .dim = data->dim,
                        .targets = data->targets,
                        .x = data->x,
                        .y = data->y,
                        .classes = data->classes,
                        .weights = data->weights,
                        .common_unit = bo_schema_describe(data->schema)->common_unit,
                        .sparse = data->sparse,
                        .schema = data->schema};
}

void bo_samples_free(bo_samples *samples)
{
    bo_free((void *)samples->x);
    bo_sparse_destroy(samples->sparse);
    bo_free((void *)samples->y);
    bo_free((void *)samples->weights);
    *samples = (bo_samples){0};
}

bo_status bo_samples_gather(bo_context *context, const bo_samples *samples, const size_t *index, size_t count,
                            bo_samples *out)
{
    bo_sparse_block *sparse = NULL;
    *out = (bo_samples){0};
    if (samples->sparse) BO_TRY(bo_sparse_gather(context, samples->sparse, index, count, &sparse));
    float *x = sparse ? NULL : bo_alloc_raw(context, count * samples->dim, sizeof *x, "a sample of the rows");
    double *y = bo_alloc_raw(context, count * samples->targets, sizeof *y, "a sample of the rows");
    float *w = samples->weights ? bo_alloc_raw(context, count, sizeof *w, "a sample of the rows") : NULL;
    *out = (bo_samples){.rows = count,
                        .dim = samples->dim,
                        .targets = samples->targets,
                        .x = x,
                        .y = y,
                        .classes = samples->classes,
                        .weights = w,
                        .common_unit = samples->common_unit,
                        .sparse = sparse ? &sparse->rows : NULL,
                        .schema = samples->schema};
    if (!(x || sparse) || !y || (samples->weights && !w)) {
        bo_samples_free(out);
        return BO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        if (x) memcpy(x + i * samples->dim, samples->x + index[i] * samples->dim, samples->dim * sizeof *x);
        memcpy(y + i * samples->targets, samples->y + index[i] * samples->targets, samples->targets * sizeof *y);
        if (w) w[i] = samples->weights[index[i]];
    }
    return BO_OK;
}

/* Moves rows of weight 0 to the end, so that a sample of few rows can be fitted; the other rows keep their order. */
static void move_weightless(const bo_samples *samples, size_t *order)
{
    size_t kept = 0;
    for (size_t i = 0; i < samples->rows; i++)
        if (samples->weights[order[i]] > 0) {
            const size_t row = order[i];
            order[i] = order[kept];
            order[kept++] = row;
        }
}

bo_status bo_samples_subset(bo_context *context, const bo_samples *samples, size_t count, uint64_t seed,
                            bo_samples *out)
{
    *out = (bo_samples){0};
    size_t *order = bo_alloc_raw(context, samples->rows, sizeof *order, "a sample of the rows");
    if (!order) return BO_MEMORY;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("machines.subset", 0));
    bo_rng_permutation(&rng, samples->rows, order);
    if (samples->weights && count < samples->rows) move_weightless(samples, order);
    bo_status status = bo_samples_gather(context, samples, order, count < samples->rows ? count : samples->rows, out);
    bo_free(order);
    return status;
}

/* ---- targets: the right-hand side -------------------------------------------------------------------------------- */

void bo_targets_free(bo_targets *targets)
{
    bo_free(targets->mean);
    bo_free(targets->deviation);
    bo_free(targets->range);
    bo_free(targets->class_weight);
    *targets = (bo_targets){0};
}

/* Target t of a row, or its logarithm. */
static double target_of(const bo_samples *samples, size_t row, size_t t, bool logarithms)
{
    const double y = samples->y[row * samples->targets + t];
    return logarithms ? log(y) : y;
}

/* Weighted mean (0 without an intercept: β alone must fit the targets) and standard deviation of target t. The sums are
 * of y / 2^exponent, at most 1 in size, whose squares are in range. A power of two changes no digit. */
static void target_moments(const bo_samples *samples, size_t t, bool intercept, bool logarithms, double *mean,
                           double *deviation, double *range)
{
    size_t rows = samples->rows;
    double largest = 0, sum = 0, squares = 0, total = 0;
    range[0] = range[1] = target_of(samples, 0, t, logarithms);
    for (size_t i = 0; i < rows; i++) {
        double y = target_of(samples, i, t, logarithms);
        largest = fmax(largest, fabs(y));
        range[0] = fmin(range[0], y);
        range[1] = fmax(range[1], y);
    }
    int exponent = largest > 0 ? ilogb(largest) + 1 : 0;
    for (size_t i = 0; i < rows; i++) {
        double w = samples->weights ? (double)samples->weights[i] : 1;
        sum += w * ldexp(target_of(samples, i, t, logarithms), -exponent);
        total += w;
    }
    double center = intercept ? sum / total : 0;
    for (size_t i = 0; i < rows; i++)
        squares += (samples->weights ? (double)samples->weights[i] : 1) *
                   pow(ldexp(target_of(samples, i, t, logarithms), -exponent) - center, 2);
    *mean = ldexp(center, exponent);
    *deviation = ldexp(sqrt(squares / total), exponent);
}

static bo_status fit_regression(bo_context *context, bool intercept, const bo_samples *samples, bo_targets *out)
{
    size_t count = samples->targets;
    out->outputs = count;
    out->mean = bo_alloc(context, count, sizeof *out->mean, "the targets");
    out->deviation = bo_alloc(context, count, sizeof *out->deviation, "the targets");
    out->range = bo_alloc(context, 2 * count, sizeof *out->range, "the targets");
    if (!out->mean || !out->deviation || !out->range) return BO_MEMORY;
    for (size_t t = 0; t < count; t++) {
        target_moments(samples, t, intercept, out->logarithms, &out->mean[t], &out->deviation[t], &out->range[2 * t]);
        if (out->deviation[t] == 0) out->deviation[t] = 1;
        if (out->deviation[t] < DBL_MIN / DBL_EPSILON)
            return bo_fail(context, BO_INVALID,
                           "target %zu: its standard deviation %g is too small for double precision; multiply the "
                           "target by a constant",
                           t, out->deviation[t]);
    }
    return BO_OK;
}

static bo_status fit_classes(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                             bo_targets *out)
{
    size_t classes = samples->classes;
    out->classes = out->outputs = classes;
    size_t *count = bo_alloc(context, classes, sizeof *count, "the classes");
    if (!count) return BO_MEMORY;
    size_t present = 0;
    for (size_t i = 0; i < samples->rows; i++) present += count[(size_t)samples->y[i]]++ == 0;
    bo_status status = BO_OK;
    if (present < 2)
        status = bo_fail(context, BO_INVALID, "expected rows of at least 2 classes, found %zu", present);
    else if (desc->balanced || desc->class_weights) {
        out->class_weight = bo_alloc(context, classes, sizeof *out->class_weight, "the class weights");
        if (!out->class_weight) status = BO_MEMORY;
        double largest = 0; /* of a class with rows */
        for (size_t c = 0; status == BO_OK && c < classes; c++) {
            double weight = desc->class_weights ? (double)desc->class_weights[c] : 1;
            if (!(weight >= 0 && isfinite(weight)))
                status = bo_fail(context, BO_INVALID, "class %zu: expected a weight >= 0, found %g", c, weight);
            /* a class that is missing in the sample of a stream counts as one row */
            double rows = count[c] ? (double)count[c] : 1;
            if (desc->balanced) weight *= (double)samples->rows / ((double)present * rows);
            out->class_weight[c] = (float)weight;
            if (count[c] && weight > largest) largest = weight;
        }
        if (status == BO_OK && largest == 0)
            status = bo_fail(context, BO_INVALID, "expected a class with rows and a positive weight, found none");
    }
    bo_free(count);
    return status;
}

bo_status bo_targets_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, bo_targets *out)
{
    *out = (bo_targets){.logarithms = desc->target_scale == BO_TARGET_SCALE_LOG};
    bo_status status = samples->classes ? fit_classes(context, desc, samples, out)
                                        : fit_regression(context, !desc->no_intercept, samples, out);
    if (status != BO_OK) bo_targets_free(out);
    return status;
}

bo_status bo_targets_in_range(bo_context *context, const bo_targets *targets, const bo_samples *samples)
{
    for (size_t i = 0; !targets->classes && i < samples->rows; i++)
        for (size_t t = 0; t < targets->outputs; t++) {
            const double *y = samples->y + i * samples->targets;
            if (targets->logarithms && !(y[t] > 0))
                return bo_fail(context, BO_INVALID,
                               "row %zu: expected a positive target for the target scale log, found %g; use linear", i,
                               y[t]);
            if (!isfinite(bo_targets_value(targets, y, t)))
                return bo_fail(
                    context, BO_INVALID,
                    "row %zu: the target %g is too far from the other targets, whose mean is %g and whose standard "
                    "deviation is %g; remove the row",
                    i, y[t], targets->mean[t], targets->deviation[t]);
        }
    return BO_OK;
}

float bo_targets_value(const bo_targets *targets, const double *y, size_t t)
{
    if (targets->classes) return (size_t)y[0] == t ? 1 : -1;
    return (float)(((targets->logarithms ? log(y[t]) : y[t]) - targets->mean[t]) / targets->deviation[t]);
}

float bo_targets_root_weight(const bo_targets *targets, const bo_samples *samples, size_t row)
{
    float weight = samples->weights ? samples->weights[row] : 1;
    if (targets->class_weight) weight *= targets->class_weight[(size_t)samples->y[row]];
    return sqrtf(weight);
}
