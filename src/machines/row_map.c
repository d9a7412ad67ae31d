/* Maps rows to features: scaling, feature map, rounding. */
#include "internal.h"
#include "../kernels/kernels.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- scaling, fitted on the training data and kept in the model -------------------------------------------------- */

void bo_scaler_free(bo_scaler *scaler)
{
    bo_free(scaler->mean);
    bo_free(scaler->factor);
    bo_free(scaler->place);
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
        /* a variance due to rounding alone counts as constant */
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
    if (varying < out->dim && !keeps_all)
        bo_log(context, BO_LOG_INFO, "ignoring %zu of %zu input columns that are constant", out->dim - varying,
               out->dim);
    return BO_OK;
}

bo_status bo_scaler_fit(bo_context *context, bo_scaling kind, const bo_samples *samples, bo_scaler *out)
{
    size_t dim = samples->dim;
    if (kind == BO_SCALING_AUTO) kind = samples->common_unit ? BO_SCALING_COMMON : BO_SCALING_COLUMNS;
    *out = (bo_scaler){.kind = kind, .dim = dim, .kept = dim, .limit = kind == BO_SCALING_COLUMNS ? farthest : 0};
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
    if (status == BO_OK) status = bo_scaler_finish(context, samples->sparse != NULL, out);
    bo_free(variance);
    if (status != BO_OK) bo_scaler_free(out);
    return status;
}

bo_status bo_scaler_finish(bo_context *context, bool sparse, bo_scaler *scaler)
{
    scaler->kept = scaler->dim;
    if (!sparse) return BO_OK;
    scaler->place = bo_alloc_raw(context, scaler->dim, sizeof *scaler->place, "the scaling");
    if (!scaler->place) return BO_MEMORY;
    scaler->kept = 0;
    for (size_t j = 0; j < scaler->dim; j++)
        scaler->place[j] = scaler->factor[j] != 0 ? (uint32_t)scaler->kept++ : UINT32_MAX;
    return BO_OK;
}

bo_status bo_scaler_copy(bo_context *context, const bo_scaler *scaler, bo_scaler *out)
{
    size_t dim = scaler->dim;
    *out = (bo_scaler){.kind = scaler->kind, .dim = dim, .limit = scaler->limit};
    out->mean = bo_alloc_raw(context, dim, sizeof *out->mean, "the scaling");
    out->factor = bo_alloc_raw(context, dim, sizeof *out->factor, "the scaling");
    if (out->mean && out->factor) {
        memcpy(out->mean, scaler->mean, dim * sizeof *out->mean);
        memcpy(out->factor, scaler->factor, dim * sizeof *out->factor);
        if (bo_scaler_finish(context, scaler->place != NULL, out) == BO_OK) return BO_OK;
    }
    bo_scaler_free(out);
    return BO_MEMORY;
}

/* s(x) of one number. */
static float scale_number(const bo_scaler *scaler, size_t column, float x)
{
    float limit = (float)scaler->limit, scaled = (x - scaler->mean[column]) * scaler->factor[column];
    return limit > 0 ? fmaxf(-limit, fminf(limit, scaled)) : scaled;
}

typedef struct apply_job {
    const bo_scaler *scaler;
    const bo_kernels *kernels;
    const bo_inputs *inputs;
    float *out;
} apply_job;

enum { APPLY_ROWS = BO_SIZE(64, 4) };

/* A dense row for a scaler of sparse rows: s(x) - s(0) of the kept columns. */
static void apply_compactly(const bo_scaler *scaler, const float *x, float *out)
{
    for (size_t j = 0; j < scaler->dim; j++)
        if (scaler->place[j] != UINT32_MAX)
            out[scaler->place[j]] = scale_number(scaler, j, x[j]) - scale_number(scaler, j, 0);
}

static void apply_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const apply_job *job = arg;
    const bo_inputs *inputs = job->inputs;
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
        job->kernels->affine(scaler->dim, x, scaler->mean, scaler->factor, out);
        for (size_t j = 0; limit > 0 && j < scaler->dim; j++) out[j] = fmaxf(-limit, fminf(limit, out[j]));
    }
}

void bo_scaler_apply(bo_context *context, const bo_scaler *scaler, const bo_inputs *inputs, float *out)
{
    assert(inputs->x || !inputs->rows);
    apply_job job = {scaler, bo_context_kernels(context), inputs, out};
    bo_parallel(context, (inputs->rows + APPLY_ROWS - 1) / APPLY_ROWS, apply_rows, &job);
}

bo_status bo_scaler_apply_sparse(bo_context *context, const bo_scaler *scaler, const bo_sparse *x,
                                 bo_sparse_block **out)
{
    assert(scaler->place);
    BO_TRY(bo_sparse_create(context, scaler->kept, out));
    for (size_t i = 0; i < x->rows; i++) {
        if (bo_sparse_reserve(context, *out, x->start[i + 1] - x->start[i]) != BO_OK) {
            bo_sparse_destroy(&(*out)->rows);
            *out = NULL;
            return BO_MEMORY;
        }
        for (size_t k = x->start[i]; k < x->start[i + 1]; k++) {
            size_t j = x->column[k];
            if (scaler->place[j] == UINT32_MAX) continue;
            bo_sparse_put(*out, scaler->place[j], scale_number(scaler, j, x->value[k]) - scale_number(scaler, j, 0));
        }
        bo_sparse_end_row(*out);
    }
    return BO_OK;
}

/* ---- features, with optional rounding ---------------------------------------------------------------------------- */

typedef struct rounding {
    const bo_kernels *kernels;
    float quantum;
    size_t rows, columns, ldz, ldq;
    float *z;
    int8_t *q;
} rounding;

enum { ROUND_ROWS = BO_SIZE(16, 2), ROUND_COLUMNS = BO_SIZE(1024, 8) };

static void round_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const rounding *job = arg;
    int8_t own[ROUND_COLUMNS];
    size_t end = (index + 1) * ROUND_ROWS < job->rows ? (index + 1) * ROUND_ROWS : job->rows;
    for (size_t i = index * ROUND_ROWS; i < end; i++)
        for (size_t j = 0; j < job->columns; j += ROUND_COLUMNS) {
            size_t count = job->columns - j < ROUND_COLUMNS ? job->columns - j : ROUND_COLUMNS;
            float *z = job->z + i * job->ldz + j;
            int8_t *q = job->q ? job->q + i * job->ldq + j : own;
            job->kernels->quantize(count, 1 / job->quantum, z, q);
            for (size_t k = 0; k < count; k++) z[k] = (float)q[k] * job->quantum;
        }
}

void bo_round_features(bo_context *context, float quantum, size_t rows, size_t columns, float *z, size_t ldz, int8_t *q,
                       size_t ldq)
{
    rounding job = {bo_context_kernels(context), quantum, rows, columns, ldz, ldq, z, q};
    bo_parallel(context, (rows + ROUND_ROWS - 1) / ROUND_ROWS, round_rows, &job);
}

static bo_status project_sparse(bo_context *context, const bo_row_map *row_map, const bo_sparse *x, float *z,
                                size_t ldz)
{
    if (!row_map->scaler) return bo_features_apply_sparse(context, row_map->phi, x, z, ldz);
    bo_sparse_block *scaled;
    BO_TRY(bo_scaler_apply_sparse(context, row_map->scaler, x, &scaled));
    bo_status status = bo_features_apply_sparse(context, row_map->phi, &scaled->rows, z, ldz);
    bo_sparse_destroy(&scaled->rows);
    return status;
}

typedef struct dense_job {
    const bo_row_map *row_map;
    float *z;
    size_t ldz;
} dense_job;

static bo_status project_dense(bo_context *context, void *arg, size_t first, size_t count, const float *x)
{
    const dense_job *job = arg;
    const bo_inputs inputs = {.rows = count, .x = x, .ldx = job->row_map->scaler->dim};
    return bo_row_map_project(context, job->row_map, &inputs, job->z + first * job->ldz, job->ldz);
}

bo_status bo_row_map_project(bo_context *context, const bo_row_map *row_map, const bo_inputs *inputs, float *z,
                             size_t ldz)
{
    const bo_scaler *scaler = row_map->scaler;
    assert(!scaler || scaler->kept == bo_features_describe(row_map->phi)->dim);
    if (!inputs->x && scaler && !scaler->place) { /* the machine was fitted to dense rows */
        dense_job job = {row_map, z, ldz};
        return bo_sparse_expand_blocks(context, &inputs->sparse, project_dense, &job);
    }
    if (!inputs->x) return project_sparse(context, row_map, &inputs->sparse, z, ldz);
    if (!scaler) return bo_features_apply(context, row_map->phi, inputs->rows, inputs->x, inputs->ldx, z, ldz);
    float *scaled = bo_alloc_raw(context, inputs->rows * scaler->kept, sizeof *scaled, "a block of inputs");
    if (!scaled) return BO_MEMORY;
    bo_scaler_apply(context, scaler, inputs, scaled);
    bo_status status = bo_features_apply(context, row_map->phi, inputs->rows, scaled, scaler->kept, z, ldz);
    bo_free(scaled);
    return status;
}

bo_status bo_row_map_apply(bo_context *context, const bo_row_map *row_map, const bo_inputs *inputs, float *z,
                           size_t ldz)
{
    assert(bo_is_quantum(row_map->quantum));
    BO_TRY(bo_row_map_project(context, row_map, inputs, z, ldz));
    size_t features = bo_features_describe(row_map->phi)->features;
    if (row_map->quantum > 0) bo_round_features(context, row_map->quantum, inputs->rows, features, z, ldz, NULL, 0);
    return BO_OK;
}

bo_status bo_typical_features(bo_context *context, const bo_features *phi, size_t rows, const float *scaled, size_t ldx,
                              float *out)
{
    const size_t features = bo_features_describe(phi)->features, some = bo_min(rows, BO_MACHINE_BLOCK);
    float *z = bo_alloc_raw(context, some * features, sizeof *z, "a block of features");
    bo_status status = z ? bo_features_apply(context, phi, some, scaled, ldx, z, features) : BO_MEMORY;
    for (size_t j = 0; j < features; j++) out[j] = 0;
    for (size_t i = 0; status == BO_OK && i < some; i++)
        for (size_t j = 0; j < features; j++) out[j] += z[i * features + j] / (float)some;
    bo_free(z);
    return status;
}

bool bo_is_quantum(float quantum)
{
    int exponent;
    return quantum == 0 || (quantum >= FLT_MIN && quantum < 1 && frexpf(quantum, &exponent) == 0.5F);
}

/* The largest feature is 1/√m (sin/cos) or √(2/m). A power of two makes multiples and their sums exact in binary. The 128th
 * multiple is clamped to the 127th. */
float bo_quantum_of(const bo_features_desc *resolved)
{
    bool paired = resolved->function == BO_FUNCTION_SINCOS;
    bool bounded = resolved->kernel <= BO_KERNEL_RATIONAL_QUADRATIC && resolved->sampling == BO_SAMPLING_DRAWN &&
                   (paired || resolved->function == BO_FUNCTION_COSBIAS);
    if (!bounded || resolved->features == 0) return 0;
    double largest = sqrt(2 / (double)resolved->features); /* √(1/m), m = features/2, and √(2/m), m = features */
    return (float)exp2(-floor(log2(128 / largest)));
}

/* Rounding errors are uniform with variance quantum²/12, and noise of variance σ² on the features acts like a penalty n σ². */
double bo_rounding_floor(float quantum, size_t rows)
{
    return 10 * (double)rows * (double)quantum * (double)quantum / 12;
}

bo_status bo_choose_precision(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *resolved,
                              bool weighted, size_t rows, double lambda, double spectrum, bo_precision *out)
{
    float quantum = bo_quantum_of(resolved);
    *out = desc->precision;
    if (desc->precision == BO_PRECISION_INT8 && quantum == 0)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "precision int8: expected bounded features (sin/cos or cos with bias of a shift-invariant kernel, "
            "without importance weights), found %s of %s; use float32",
            bo_function_name(resolved->function), bo_kernel_name(resolved->kernel));
    if (desc->precision == BO_PRECISION_INT8 && weighted)
        return bo_fail(context, BO_UNSUPPORTED, "precision int8: expected rows of equal weight; use float32");
    if (desc->precision != BO_PRECISION_AUTO) return BO_OK;
    double least = lambda / 4; /* λ may still decrease to this value */
    *out = quantum > 0 && !weighted && least > bo_rounding_floor(quantum, rows) ? BO_PRECISION_INT8
           : bo_needs_precision(least, spectrum)                                ? BO_PRECISION_FLOAT64
                                                                                : BO_PRECISION_FLOAT32;
    return BO_OK;
}
