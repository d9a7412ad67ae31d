/* Rows to learn from: checking them, and taking some of them. */
#include "internal.h"

#include <math.h>
#include <string.h>

static bo_status check_row(bo_context *context, const bo_samples *samples, size_t i)
{
    const float *x = samples->x + i * samples->dim;
    for (size_t j = 0; j < samples->dim; j++)
        if (!isfinite(x[j]))
            return bo_fail(context, BO_INVALID, "row %zu, column %zu: expected a finite number, found %g", i, j,
                           (double)x[j]);
    for (size_t t = 0; samples->y && t < samples->targets; t++) {
        double y = samples->y[i * samples->targets + t];
        if (!isfinite(y)) return bo_fail(context, BO_INVALID, "row %zu: expected a finite target, found %g", i, y);
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
    if (samples->dim == 0) return bo_fail(context, BO_INVALID, "the data has no input columns");
    if (samples->classes && samples->targets != 1)
        return bo_fail(context, BO_INVALID, "classification takes one target column, found %zu", samples->targets);
    if (samples->targets == 0 || !samples->y) return bo_fail(context, BO_INVALID, "the data has no target");
    if (samples->classes == 1) return bo_fail(context, BO_INVALID, "classification needs at least 2 classes, found 1");
    for (size_t i = 0; i < samples->rows; i++) BO_TRY(check_row(context, samples, i));
    return BO_OK;
}

bo_samples bo_samples_of(const bo_data *data)
{
    return (bo_samples){.rows = data->rows,
                        .dim = data->dim,
                        .targets = data->targets,
                        .x = data->x,
                        .y = data->y,
                        .classes = data->classes,
                        .common_unit = bo_schema_common_unit(data->schema)};
}

void bo_samples_free(bo_samples *samples)
{
    bo_free((void *)samples->x);
    bo_free((void *)samples->y);
    bo_free((void *)samples->weights);
    *samples = (bo_samples){0};
}

bo_status bo_samples_gather(bo_context *context, const bo_samples *samples, const size_t *index, size_t count,
                            bo_samples *out)
{
    *out = *samples;
    float *x = bo_alloc_raw(context, count * samples->dim, sizeof *x, "a sample of the rows");
    double *y = bo_alloc_raw(context, count * samples->targets, sizeof *y, "a sample of the rows");
    float *w = samples->weights ? bo_alloc_raw(context, count, sizeof *w, "a sample of the rows") : NULL;
    *out = (bo_samples){.rows = count,
                        .dim = samples->dim,
                        .targets = samples->targets,
                        .x = x,
                        .y = y,
                        .classes = samples->classes,
                        .weights = w,
                        .common_unit = samples->common_unit};
    if (!x || !y || (samples->weights && !w)) {
        bo_samples_free(out);
        return BO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(x + i * samples->dim, samples->x + index[i] * samples->dim, samples->dim * sizeof *x);
        memcpy(y + i * samples->targets, samples->y + index[i] * samples->targets, samples->targets * sizeof *y);
        if (w) w[i] = samples->weights[index[i]];
    }
    return BO_OK;
}

bo_status bo_samples_subset(bo_context *context, const bo_samples *samples, size_t count, uint64_t seed,
                            bo_samples *out)
{
    *out = (bo_samples){0};
    size_t *order = bo_alloc_raw(context, samples->rows, sizeof *order, "a sample of the rows");
    if (!order) return BO_MEMORY;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("machines.subset", 0));
    bo_rng_permutation(&rng, samples->rows, order);
    bo_status status = bo_samples_gather(context, samples, order, count < samples->rows ? count : samples->rows, out);
    bo_free(order);
    return status;
}
