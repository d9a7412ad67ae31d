/* Metrics from symmetric matrices. */
#include "metric.h"
#include "linalg.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bo_status bo_eigen_of(bo_context *context, size_t dim, const double *matrix, double *vectors, double *values)
{
    memcpy(vectors, matrix, dim * dim * sizeof *vectors);
    return bo_eigen(context, dim, vectors, dim, values);
}

void bo_eigen_compose(size_t dim, const double *vectors, const double *f, double *out)
{
    memset(out, 0, dim * dim * sizeof *out);
    for (size_t k = 0; k < dim; k++)
        for (size_t i = 0; i < dim; i++) {
            double scaled = f[k] * vectors[k * dim + i];
            for (size_t j = 0; j < dim; j++) out[i * dim + j] += scaled * vectors[k * dim + j];
        }
}

void bo_metric_write(size_t dim, size_t rank, const double *vectors, const double *f, double *full, float *a)
{
    if (rank == dim) bo_eigen_compose(dim, vectors, f, full);
    for (size_t r = 0; r < rank; r++)
        for (size_t j = 0; j < dim; j++) {
            size_t i = dim - 1 - r;
            a[r * dim + j] = (float)(rank == dim ? full[r * dim + j] : f[i] * vectors[i * dim + j]);
        }
}

/* f_i = sqrt of (value_i / largest)^power, divided by the root of their mean. */
static bool roots_of(size_t dim, double power, double floor, double *values)
{
    double largest = 0, mean = 0;
    for (size_t i = 0; i < dim; i++) largest = fmax(largest, values[i]);
    if (!(largest > 0) || !isfinite(largest)) return false;
    for (size_t i = 0; i < dim; i++) {
        values[i] = pow(fmax(values[i] / largest, floor), power);
        mean += values[i] / (double)dim;
    }
    for (size_t i = 0; i < dim; i++) values[i] = sqrt(values[i] / mean);
    return true;
}

bo_status bo_metric_power(bo_context *context, size_t dim, const double *s, double power, bool diagonal, double floor,
                          bo_metric *out)
{
    assert(dim > 0 && floor >= 0);
    *out = (bo_metric){.dim = dim, .rank = dim, .diagonal = diagonal};
    size_t square = diagonal ? 0 : dim * dim;
    double *values = bo_alloc_raw(context, dim + 2 * square, sizeof *values, "a metric");
    out->a = bo_alloc_raw(context, diagonal ? dim : square, sizeof *out->a, "a metric");
    bo_status status = values && out->a ? BO_OK : BO_MEMORY;
    if (status == BO_OK && diagonal)
        for (size_t j = 0; j < dim; j++) values[j] = s[j * dim + j];
    else if (status == BO_OK)
        status = bo_eigen_of(context, dim, s, values + dim, values);
    if (status == BO_OK && !roots_of(dim, power, floor, values))
        status = bo_fail(context, BO_NUMERIC, "a metric needs a symmetric matrix with a positive eigenvalue");
    for (size_t j = 0; status == BO_OK && diagonal && j < dim; j++) out->a[j] = (float)values[j];
    if (status == BO_OK && !diagonal) bo_metric_write(dim, dim, values + dim, values, values + dim + square, out->a);
    bo_free(values);
    if (status != BO_OK) bo_metric_free(out);
    return status;
}

static size_t numbers_of(const bo_metric *metric)
{
    return metric->diagonal ? metric->dim : metric->rank * metric->dim;
}

bo_status bo_metric_copy(bo_context *context, const bo_metric *metric, bo_metric *out)
{
    *out = *metric;
    if (!metric->a) return BO_OK;
    out->a = bo_alloc_raw(context, numbers_of(metric), sizeof *out->a, "a metric");
    if (!out->a) {
        *out = (bo_metric){0};
        return BO_MEMORY;
    }
    memcpy(out->a, metric->a, numbers_of(metric) * sizeof *out->a);
    return BO_OK;
}

void bo_metric_free(bo_metric *metric)
{
    bo_free(metric->a);
    *metric = (bo_metric){0};
}

void bo_metric_row(const bo_metric *metric, const float *x, float *out)
{
    size_t dim = metric->dim;
    if (metric->diagonal) {
        for (size_t j = 0; j < dim; j++) out[j] = metric->a[j] * x[j];
        return;
    }
    for (size_t r = 0; r < metric->rank; r++) {
        const float *a = metric->a + r * dim;
        float sums[8] = {0}, sum = 0;
        size_t j = 0;
        for (; j + 8 <= dim; j += 8)
            for (size_t l = 0; l < 8; l++) sums[l] += a[j + l] * x[j + l];
        for (size_t l = 0; l < 8; l++) sum += sums[l];
        for (; j < dim; j++) sum += a[j] * x[j];
        out[r] = sum;
    }
}
