/* Maps rows to features: scaling (scaler.c), feature map, rounding. */
#include "../base/base.h"
#include "../device/cpu/kernels.h"
#include "../features/enums.h"
#include "../features/sparse.h"
#include "../io/sparse.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

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
    int8_t scratch[ROUND_COLUMNS];
    size_t end = (index + 1) * ROUND_ROWS < job->rows ? (index + 1) * ROUND_ROWS : job->rows;
    for (size_t i = index * ROUND_ROWS; i < end; i++)
        for (size_t j = 0; j < job->columns; j += ROUND_COLUMNS) {
            size_t count = job->columns - j < ROUND_COLUMNS ? job->columns - j : ROUND_COLUMNS;
            float *z = job->z + i * job->ldz + j;
            int8_t *q = job->q ? job->q + i * job->ldq + j : scratch;
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
    const bo_input_view inputs = {.rows = count, .x = x, .ldx = job->row_map->scaler->dim};
    return bo_row_map_project(context, job->row_map, &inputs, job->z + first * job->ldz, job->ldz);
}

bo_status bo_row_map_project(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs, float *z,
                             size_t ldz)
{
    const bo_scaler *scaler = row_map->scaler;
    assert(!scaler || scaler->kept == bo_features_describe(row_map->phi)->dim);
    if (!inputs->x && scaler && !scaler->place) { /* the machine was fitted to dense rows */
        dense_job job = {row_map, z, ldz};
        return bo_sparse_expand_blocks(context, &inputs->sparse, project_dense, &job);
    }
    if (!inputs->x) return project_sparse(context, row_map, &inputs->sparse, z, ldz);
    if (!scaler)
        return bo_features_apply(context, row_map->phi,
                                 &(bo_inputs){.rows = inputs->rows, .x = inputs->x, .stride = inputs->ldx}, z, ldz);
    float *scaled = bo_alloc_raw(context, inputs->rows * scaler->kept, sizeof *scaled, "a block of inputs");
    if (!scaled) return BO_MEMORY;
    bo_status status = bo_scaler_apply(context, scaler, inputs, scaled);
    if (status == BO_OK)
        status = bo_features_apply(context, row_map->phi,
                                   &(bo_inputs){.rows = inputs->rows, .x = scaled, .stride = scaler->kept}, z, ldz);
    bo_free(scaled);
    return status;
}

bo_status bo_row_map_apply(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs, float *z,
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
    bo_status status =
        z ? bo_features_apply(context, phi, &(bo_inputs){.rows = some, .x = scaled, .stride = ldx}, z, features)
          : BO_MEMORY;
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

/* The largest feature is 1/√m (sin/cos) or √(2/m). A power of two makes multiples and their sums exact in binary. The
 * 128th multiple is clamped to the 127th. */
float bo_quantum_of(const bo_features_desc *resolved)
{
    bool paired = resolved->function == BO_FUNCTION_SINCOS;
    bool bounded = resolved->kernel <= BO_KERNEL_RATIONAL_QUADRATIC && resolved->sampling == BO_SAMPLING_DRAWN &&
                   (paired || resolved->function == BO_FUNCTION_COSBIAS);
    if (!bounded || resolved->features == 0) return 0;
    double largest = sqrt(2 / (double)resolved->features); /* √(1/m), m = features/2, and √(2/m), m = features */
    return (float)exp2(-floor(log2(128 / largest)));
}

/* Rounding errors are uniform with variance quantum²/12, and noise of variance σ² on the features acts like a penalty n
 * σ². */
double bo_rounding_floor(float quantum, size_t rows)
{
    return 10 * (double)rows * (double)quantum * (double)quantum / 12;
}

bo_status bo_choose_precision(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *resolved,
                              bool weighted, size_t rows, double lambda, double spectrum, bo_gram_precision *out)
{
    float quantum = bo_quantum_of(resolved);
    *out = desc->precision;
    if (desc->precision == BO_GRAM_PRECISION_INT8 && quantum == 0)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "precision int8: expected bounded features (sin/cos or cos with bias of a shift-invariant kernel, "
            "without importance weights), found %s of %s; use float32",
            bo_function_name(resolved->function), bo_kernel_name(resolved->kernel));
    if (desc->precision == BO_GRAM_PRECISION_INT8 && weighted)
        return bo_fail(context, BO_UNSUPPORTED, "precision int8: expected rows of equal weight; use float32");
    if (desc->precision != BO_GRAM_PRECISION_AUTO) return BO_OK;
    double min_lambda = lambda / 4; /* λ may still decrease to this value */
    *out = quantum > 0 && !weighted && min_lambda > bo_rounding_floor(quantum, rows) ? BO_GRAM_PRECISION_INT8
           : bo_needs_precision(min_lambda, spectrum)                                ? BO_GRAM_PRECISION_FLOAT64
                                                                                     : BO_GRAM_PRECISION_FLOAT32;
    return BO_OK;
}
