/* Moments: the one pass over the data. Features of a block of rows are made, the targets and a one put beside them, and the
 * whole block's outer product is added. */
#include "internal.h"
#include "../math/linalg.h"

#include <math.h>
#include <string.h>

bo_status bo_moments_create(bo_context *context, size_t features, size_t outputs, bo_precision precision,
                            bo_moments *out)
{
    size_t size = features + outputs + 1;
    *out = (bo_moments){.features = features, .outputs = outputs, .size = size, .precision = precision};
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

/* Buffers for one block of rows. */
typedef struct block {
    size_t rows, stride;
    float *scaled; /* rows x dim */
    float *z;      /* rows x stride: features, targets, one */
    int8_t *q;     /* INT8: rows x features, the features as multiples of the quantum */
    float *cross;  /* INT8: features x (outputs + 1) */
} block;

static void block_free(block *b)
{
    bo_free(b->scaled);
    bo_free(b->z);
    bo_free(b->q);
    bo_free(b->cross);
}

static bo_status block_create(bo_context *context, const bo_moments *moments, const bo_samples *samples, block *b)
{
    bool rounded = moments->precision == BO_PRECISION_INT8;
    *b = (block){.rows = samples->rows < BO_MACHINE_BLOCK ? samples->rows : BO_MACHINE_BLOCK,
                 .stride = bo_padded(moments->size)};
    b->scaled = bo_alloc_raw(context, b->rows * samples->dim, sizeof *b->scaled, "a block of inputs");
    b->z = bo_alloc_raw(context, b->rows * b->stride, sizeof *b->z, "a block of features");
    if (rounded) {
        b->q = bo_alloc_raw(context, b->rows, moments->features, "a block of rounded features");
        b->cross =
            bo_alloc_raw(context, moments->features * (moments->outputs + 1), sizeof *b->cross, "a block of sums");
    }
    return b->scaled && b->z && (!rounded || (b->q && b->cross)) ? BO_OK : BO_MEMORY;
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

/* Features as exact integers; their products with the few other columns in float32, summed a block at a time. */
static bo_status add_rounded(bo_context *context, bo_moments *moments, float quantum, size_t rows, const block *b)
{
    size_t features = moments->features, others = moments->outputs + 1, size = moments->size;
    double *g = moments->gram, unit = (double)quantum * (double)quantum;
    BO_TRY(bo_gram8(context, features, rows, b->q, features, unit, g, size));
    BO_TRY(bo_gemm(context, true, false, features, others, rows, 1, b->z, b->stride, b->z + features, b->stride, 0,
                   b->cross, others));
    for (size_t j = 0; j < features; j++)
        for (size_t t = 0; t < others; t++) g[j * size + features + t] += (double)b->cross[j * others + t];
    return bo_gram(context, others, rows, b->z + features, b->stride, g + features * size + features, size, true);
}

static bo_status add_block(bo_context *context, bo_moments *moments, const bo_row_map *front, const bo_targets *targets,
                           const bo_samples *samples, size_t first, size_t rows, block *b)
{
    size_t features = moments->features, dim = samples->dim;
    bool rounded = moments->precision == BO_PRECISION_INT8;
    bo_scaler_apply(context, front->scaler, rows, samples->x + first * dim, dim, b->scaled);
    BO_TRY(bo_features_apply(context, front->phi, rows, b->scaled, dim, b->z, b->stride));
    if (rounded) bo_round_features(context, front->quantum, rows, features, b->z, b->stride, b->q, features);
    for (size_t i = 0; i < rows; i++) complete_row(targets, samples, first + i, features, b->z + i * b->stride);
    if (rounded) return add_rounded(context, moments, front->quantum, rows, b);
    return bo_gram(context, moments->size, rows, b->z, b->stride, moments->gram, moments->size,
                   moments->precision == BO_PRECISION_FLOAT64);
}

bo_status bo_moments_add(bo_context *context, bo_moments *moments, const bo_row_map *front, const bo_targets *targets,
                         const bo_samples *samples, bool report)
{
    block b;
    bo_status status = block_create(context, moments, samples, &b);
    for (size_t first = 0; status == BO_OK && first < samples->rows; first += b.rows) {
        size_t rows = samples->rows - first < b.rows ? samples->rows - first : b.rows;
        status = add_block(context, moments, front, targets, samples, first, rows, &b);
        for (size_t i = first; status == BO_OK && i < first + rows; i++)
            moments->rows += bo_targets_root_weight(targets, samples, i) > 0;
        if (status == BO_OK && report)
            status = bo_progress(context, "fitting", (double)(first + rows), (double)samples->rows);
    }
    block_free(&b);
    return status;
}

/* y = (ZᵀZ - ssᵀ/n) x from the upper triangle. */
static void centered_multiply(const bo_moments *moments, bool intercept, const double *x, double *y)
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
        centered_multiply(moments, intercept, x, y);
        double quotient = 0;
        for (size_t j = 0; j < n; j++) quotient += x[j] * y[j];
        *largest = quotient;
        memcpy(x, y, n * sizeof *x);
    }
    bo_free(x);
    bo_free(y);
    return BO_OK;
}
