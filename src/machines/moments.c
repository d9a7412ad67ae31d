/* Moments: the one pass over the data. Features of a block of rows are made, the targets and a one put beside them, and the
 * whole block's outer product is added. */
#include "internal.h"
#include "../math/linalg.h"

#include <math.h>
#include <string.h>

bo_status bo_moments_create(bo_context *context, size_t features, size_t outputs, bool precise, bo_moments *out)
{
    size_t size = features + outputs + 1;
    *out = (bo_moments){.features = features, .outputs = outputs, .size = size, .precise = precise};
    size_t count;
    if (__builtin_mul_overflow(size, size, &count)) count = SIZE_MAX;
    out->gram = bo_alloc(context, count, sizeof *out->gram, "the Gram matrix of the features");
    return out->gram ? BO_OK : BO_MEMORY;
}

void bo_moments_free(bo_moments *moments)
{
    bo_free(moments->gram);
    *moments = (bo_moments){0};
}

/* Puts y and 1 behind the features of one row and multiplies all by √w. */
static void complete_row(const bo_targets *targets, const bo_samples *samples, size_t row, size_t features, float *z)
{
    for (size_t t = 0; t < targets->outputs; t++)
        z[features + t] = bo_targets_value(targets, samples->y + row * samples->targets, t);
    z[features + targets->outputs] = 1;
    float root = bo_targets_root_weight(targets, samples, row);
    if (root == 1) return;
    for (size_t j = 0; j <= features + targets->outputs; j++) z[j] *= root;
}

bo_status bo_moments_add(bo_context *context, bo_moments *moments, const bo_features *phi, const bo_scaler *scaler,
                         const bo_targets *targets, const bo_samples *samples, bool report)
{
    size_t stride = (moments->size + 15) / 16 * 16, block = BO_MACHINE_BLOCK;
    if (block > samples->rows) block = samples->rows;
    float *scaled = bo_alloc_raw(context, block * samples->dim, sizeof *scaled, "a block of inputs");
    float *z = bo_alloc_raw(context, block * stride, sizeof *z, "a block of features");
    bo_status status = scaled && z ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < samples->rows; first += block) {
        size_t rows = samples->rows - first < block ? samples->rows - first : block;
        bo_scaler_apply(context, scaler, rows, samples->x + first * samples->dim, samples->dim, scaled);
        status = bo_features_apply(context, phi, rows, scaled, samples->dim, z, stride);
        for (size_t i = 0; status == BO_OK && i < rows; i++)
            complete_row(targets, samples, first + i, moments->features, z + i * stride);
        if (status == BO_OK)
            status = bo_gram(context, moments->size, rows, z, stride, moments->gram, moments->size, moments->precise);
        if (status == BO_OK) moments->rows += rows;
        if (status == BO_OK && report)
            status = bo_progress(context, "fitting", (double)(first + rows), (double)samples->rows);
    }
    bo_free(scaled);
    bo_free(z);
    return status;
}

/* y = (ZᵀZ - ssᵀ/n) x from the upper triangle. */
static void centred_multiply(const bo_moments *moments, bool intercept, const double *x, double *y)
{
    size_t n = moments->features, size = moments->size;
    const double *g = moments->gram;
    memset(y, 0, n * sizeof *y);
    for (size_t i = 0; i < n; i++) {
        const double *row = g + i * size;
        double sum = row[i] * x[i];
        for (size_t j = i + 1; j < n; j++) {
            sum += row[j] * x[j];
            y[j] += row[j] * x[i];
        }
        y[i] += sum;
    }
    if (!intercept) return;
    double along = 0, weight = g[(size - 1) * size + size - 1];
    for (size_t j = 0; j < n; j++) along += g[j * size + size - 1] * x[j];
    for (size_t j = 0; j < n; j++) y[j] -= g[j * size + size - 1] * along / weight;
}

bo_status bo_moments_spectrum(bo_context *context, const bo_moments *moments, bool intercept, double *largest)
{
    enum { STEPS = 12 }; /* a few per cent are enough: it decides precision and step sizes with a margin */
    size_t n = moments->features;
    double *x = bo_alloc_raw(context, n, sizeof *x, "a power iteration");
    double *y = bo_alloc_raw(context, n, sizeof *y, "a power iteration");
    if (!x || !y) {
        bo_free(x);
        bo_free(y);
        return BO_MEMORY;
    }
    bo_rng rng = bo_rng_make(0, bo_rng_stream("machines.spectrum", 0));
    for (size_t j = 0; j < n; j++) x[j] = bo_rng_normal(&rng);
    *largest = 0;
    for (int step = 0; step < STEPS; step++) {
        double norm = 0;
        for (size_t j = 0; j < n; j++) norm += x[j] * x[j];
        norm = sqrt(norm);
        if (norm == 0) break;
        for (size_t j = 0; j < n; j++) x[j] /= norm;
        centred_multiply(moments, intercept, x, y);
        double quotient = 0;
        for (size_t j = 0; j < n; j++) quotient += x[j] * y[j];
        *largest = quotient;
        memcpy(x, y, n * sizeof *x);
    }
    bo_free(x);
    bo_free(y);
    return BO_OK;
}
