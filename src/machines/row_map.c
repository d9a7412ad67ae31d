/* Maps rows to features: scaling, feature map, rounding. */
#include "internal.h"
#include "../kernels/kernels.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* ---- scaling, fitted on the training data and kept in the model -------------------------------------------------- */

void bo_scaler_free(bo_scaler *scaler)
{
    bo_free(scaler->mean);
    bo_free(scaler->factor);
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

/* Predictions far from all training rows are erratic, so scaled inputs are clamped. */
static const double farthest = 5;
/* Factors of columns and differences from the mean stay in the range of float32. */
static const double widest_deviation = 1e37;

bo_status bo_scaler_fit(bo_context *context, bo_scaling kind, const bo_samples *samples, bo_scaler *out)
{
    size_t dim = samples->dim;
    if (kind == BO_SCALING_AUTO) kind = samples->common_unit ? BO_SCALING_COMMON : BO_SCALING_COLUMNS;
    *out = (bo_scaler){.kind = kind, .dim = dim, .limit = kind == BO_SCALING_COLUMNS ? farthest : 0};
    assert(out->kind != BO_SCALING_AUTO && out->limit >= 0);
    out->mean = bo_alloc(context, dim, sizeof *out->mean, "the scaling");
    out->factor = bo_alloc(context, dim, sizeof *out->factor, "the scaling");
    double *variance = bo_alloc(context, 2 * dim, sizeof *variance, "the scaling"),
           *mean = variance ? variance + dim : NULL;
    if (!out->mean || !out->factor || !variance) {
        bo_free(variance);
        bo_scaler_free(out);
        return BO_MEMORY;
    }
    moments_job job = {samples, mean, variance};
    bo_parallel(context, (dim + COLUMNS - 1) / COLUMNS, column_moments, &job);
    double total = 0;
    size_t varying = 0;
    for (size_t j = 0; j < dim; j++) {
        /* a variance due to rounding alone counts as constant */
        if (variance[j] <= 1e-12 * mean[j] * mean[j]) variance[j] = 0;
        out->mean[j] = kind == BO_SCALING_NONE ? 0 : (float)mean[j];
        total += variance[j];
        varying += variance[j] > 0;
    }
    bool useless = varying == 0;
    size_t extreme = SIZE_MAX;
    for (size_t j = 0; j < dim; j++) {
        double scale = kind == BO_SCALING_NONE     ? 1
                       : variance[j] == 0          ? 0
                       : kind == BO_SCALING_COMMON ? sqrt((double)dim / total)
                                                   : 1 / sqrt(variance[j]);
        out->factor[j] = (float)scale;
        if (scale != 0 && !(scale >= 1 / widest_deviation && scale <= widest_deviation) && extreme == SIZE_MAX)
            extreme = j;
    }
    double deviation = extreme < dim ? sqrt(variance[extreme]) : 0;
    bo_free(variance);
    if (extreme < dim) {
        bo_scaler_free(out);
        return bo_fail(
            context, BO_INVALID,
            "input column %zu: expected a standard deviation between %g and %g, which float32 can scale, found "
            "%g; multiply the column by a constant",
            extreme, 1 / widest_deviation, widest_deviation, deviation);
    }
    if (useless) {
        bo_scaler_free(out);
        return bo_fail(context, BO_INVALID,
                       "expected input columns that vary, found only constant columns in %zu training rows",
                       samples->rows);
    }
    if (varying < dim)
        bo_log(context, BO_LOG_INFO, "ignoring %zu of %zu input columns that are constant", dim - varying, dim);
    return BO_OK;
}

typedef struct apply_job {
    const bo_scaler *scaler;
    const bo_kernels *kernels;
    size_t rows, ldx;
    const float *x;
    float *out;
} apply_job;

enum { APPLY_ROWS = BO_SIZE(64, 4) };

static void apply_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const apply_job *job = arg;
    size_t dim = job->scaler->dim, end = (index + 1) * APPLY_ROWS;
    if (end > job->rows) end = job->rows;
    float limit = (float)job->scaler->limit;
    for (size_t i = index * APPLY_ROWS; i < end; i++) {
        float *out = job->out + i * dim;
        job->kernels->affine(dim, job->x + i * job->ldx, job->scaler->mean, job->scaler->factor, out);
        for (size_t j = 0; limit > 0 && j < dim; j++) out[j] = fmaxf(-limit, fminf(limit, out[j]));
    }
}

void bo_scaler_apply(bo_context *context, const bo_scaler *scaler, size_t rows, const float *x, size_t ldx, float *out)
{
    apply_job job = {scaler, bo_context_kernels(context), rows, ldx, x, out};
    bo_parallel(context, (rows + APPLY_ROWS - 1) / APPLY_ROWS, apply_rows, &job);
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

bo_status bo_row_map_apply(bo_context *context, const bo_row_map *row_map, size_t rows, const float *x, size_t ldx,
                           float *scratch, float *z, size_t ldz)
{
    assert(bo_is_quantum(row_map->quantum));
    assert(row_map->scaler->dim == bo_features_describe(row_map->phi)->dim);
    const bo_features_desc *map = bo_features_describe(row_map->phi);
    bo_scaler_apply(context, row_map->scaler, rows, x, ldx, scratch);
    BO_TRY(bo_features_apply(context, row_map->phi, rows, scratch, map->dim, z, ldz));
    if (row_map->quantum > 0) bo_round_features(context, row_map->quantum, rows, map->features, z, ldz, NULL, 0);
    return BO_OK;
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
