/* From rows to features: scaling, the map, and rounding to 8 bits where the fit asked for it. */
#include "internal.h"
#include "../kernels/kernels.h"

#include <math.h>

typedef struct rounding {
    const bo_kernels *kernels;
    float quantum;
    size_t rows, columns, ldz, ldq;
    float *z;
    int8_t *q;
} rounding;

enum { ROUND_ROWS = 16, ROUND_COLUMNS = 1024 };

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

bo_status bo_row_map_apply(bo_context *context, const bo_row_map *front, size_t rows, const float *x, size_t ldx,
                           float *scratch, float *z, size_t ldz)
{
    const bo_features_desc *map = bo_features_describe(front->phi);
    bo_scaler_apply(context, front->scaler, rows, x, ldx, scratch);
    BO_TRY(bo_features_apply(context, front->phi, rows, scratch, map->dim, z, ldz));
    if (front->quantum > 0) bo_round_features(context, front->quantum, rows, map->features, z, ldz, NULL, 0);
    return BO_OK;
}

/* The largest feature is 1/√m (sin/cos) or √(2/m); a power of two makes multiples and their sums exact in binary. The one
 * that would be the 128th multiple is clamped to the 127th. */
float bo_quantum_of(const bo_features_desc *resolved)
{
    bool paired = resolved->function == BO_FUNCTION_SINCOS;
    bool bounded = resolved->kernel <= BO_KERNEL_RATIONAL_QUADRATIC && resolved->sampling == BO_SAMPLING_DRAWN &&
                   (paired || resolved->function == BO_FUNCTION_COSBIAS);
    if (!bounded || resolved->features == 0) return 0;
    double largest = sqrt(2 / (double)resolved->features); /* √(1/m), m = features/2, and √(2/m), m = features */
    return (float)exp2(-floor(log2(128 / largest)));
}

/* Rounding errors are uniform, of variance quantum²/12, and noise σ² on the features is a penalty of n σ². */
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
        return bo_fail(context, BO_UNSUPPORTED,
                       "precision int8 needs bounded features: sin/cos or cos with bias of a "
                       "shift-invariant kernel, as drawn; found %s of %s",
                       bo_function_name(resolved->function), bo_kernel_name(resolved->kernel));
    if (desc->precision == BO_PRECISION_INT8 && weighted)
        return bo_fail(context, BO_UNSUPPORTED, "precision int8 needs rows of equal weight; use float32");
    if (desc->precision != BO_PRECISION_AUTO) return BO_OK;
    double least = lambda / 4; /* λ may still move so far */
    *out = quantum > 0 && !weighted && least > bo_rounding_floor(quantum, rows) ? BO_PRECISION_INT8
           : bo_needs_precision(least, spectrum)                                ? BO_PRECISION_FLOAT64
                                                                                : BO_PRECISION_FLOAT32;
    return BO_OK;
}
