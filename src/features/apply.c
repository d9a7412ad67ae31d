/* Applying a map. The fast path: blocks of rows as tasks; the projection goes straight into z, where the
 * function turns it into features. Raw inputs are never scaled: factors are part of the packed frequencies. */
#include <string.h>
#include "internal.h"

/* ---- float: the fast path -------------------------------------------------------------------------------------- */

typedef struct apply_job {
    const bo_features *features;
    size_t rows, ldx, ldz;
    const float *x;
    float *z;
    char *scratch;
    size_t per_worker, project_bytes, t_bytes, u_bytes;
} apply_job;

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* How a worker's scratch is laid out: projection, scaled inputs, projections apart from z, the function's
 * own. */
static void plan_scratch(apply_job *job)
{
    const bo_features *f = job->features;
    bool apart = !f->function->fast;
    if (f->hadamard.padded) job->project_bytes = aligned(f->hadamard.padded * sizeof(float));
    if (f->packed) job->project_bytes = aligned(bo_packed_scratch(f->packed, BO_BLOCK_ROWS));
    if (apart) {
        job->t_bytes = aligned(BO_BLOCK_ROWS * f->desc.dim * sizeof(float));
        job->u_bytes = aligned(BO_BLOCK_ROWS * f->frequencies * sizeof(float));
    }
    size_t own = f->function->scratch ? aligned(f->function->scratch(f)) : 0;
    job->per_worker = job->project_bytes + job->t_bytes + job->u_bytes + own;
}

static void apply_task(void *arg, size_t index, int worker)
{
    const apply_job *job = arg;
    const bo_features *f = job->features;
    size_t first = index * BO_BLOCK_ROWS, dim = f->desc.dim;
    size_t rows = job->rows - first < BO_BLOCK_ROWS ? job->rows - first : BO_BLOCK_ROWS;
    const float *x = job->x + first * job->ldx;
    float *z = job->z + first * job->ldz;
    char *scratch = job->scratch + (size_t)worker * job->per_worker;
    float *t = (float *)(scratch + job->project_bytes);
    float *u = f->function->fast ? z : (float *)(scratch + job->project_bytes + job->t_bytes);
    size_t ldu = f->function->fast ? job->ldz : f->frequencies;
    if (f->packed)
        bo_packed_multiply(f->packed, rows, x, job->ldx, u, ldu, scratch);
    else if (f->hadamard.padded)
        bo_hadamard_project(f, rows, x, job->ldx, u, ldu, (float *)scratch);
    if (f->function->fast) {
        f->function->fast(f, rows, x, job->ldx, z, job->ldz);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++) t[r * dim + j] = x[r * job->ldx + j] * (float)f->factor[j];
    f->function->forward_f32(f, rows, u, t, z, job->ldz, scratch + job->project_bytes + job->t_bytes + job->u_bytes);
}

static bo_status check_strides(bo_context *context, const bo_features *features, const void *x, size_t ldx,
                               const void *z, size_t ldz)
{
    if (!x || !z) return bo_fail(context, BO_INVALID, "applying features: the %s is NULL", x ? "output" : "input");
    if (ldx < features->desc.dim)
        return bo_fail(context, BO_INVALID, "applying features: ldx must be at least dim = %zu, found %zu",
                       features->desc.dim, ldx);
    if (ldz < features->desc.features)
        return bo_fail(context, BO_INVALID, "applying features: ldz must be at least features = %zu, found %zu",
                       features->desc.features, ldz);
    return BO_OK;
}

bo_status bo_features_apply(bo_context *context, const bo_features *features, size_t rows, const float *x, size_t ldx,
                            float *z, size_t ldz)
{
    if (rows == 0) return BO_OK;
    BO_TRY(check_strides(context, features, x, ldx, z, ldz));
    apply_job job = {.features = features, .rows = rows, .ldx = ldx, .ldz = ldz, .x = x, .z = z};
    plan_scratch(&job);
    job.scratch = bo_alloc_raw(context, (size_t)bo_context_threads(context), job.per_worker, "applying features");
    if (!job.scratch) return BO_MEMORY;
    bo_parallel(context, (rows + BO_BLOCK_ROWS - 1) / BO_BLOCK_ROWS, apply_task, &job);
    bo_free(job.scratch);
    return BO_OK;
}

/* ---- double: the reference ------------------------------------------------------------------------------------- */

typedef struct reference_job {
    const bo_features *features;
    size_t rows, ldz;
    const double *u, *t;
    double *z;
    char *scratch;
    size_t per_worker;
} reference_job;

static void reference_task(void *arg, size_t index, int worker)
{
    const reference_job *job = arg;
    const bo_features *f = job->features;
    f->function->forward_f64(f, 1, job->u + index * f->frequencies, job->t + index * f->desc.dim,
                             job->z + index * job->ldz, job->ldz, job->scratch + (size_t)worker * job->per_worker);
}

bo_status bo_features_apply_f64(bo_context *context, const bo_features *features, size_t rows, const double *x,
                                size_t ldx, double *z, size_t ldz)
{
    const bo_function_definition *function = features->function;
    size_t m = features->frequencies, dim = features->desc.dim, chunk = rows < 256 ? rows : 256;
    if (rows == 0) return BO_OK;
    BO_TRY(check_strides(context, features, x, ldx, z, ldz));
    if (!function->forward_f64)
        return bo_fail(context, BO_UNSUPPORTED, "function %s has no float64 reference", function->name);
    size_t own = function->scratch ? aligned(function->scratch(features)) : 0;
    double *w = bo_alloc_raw(context, m * dim, sizeof *w, "frequencies in float64");
    double *t = bo_alloc_raw(context, chunk * (dim + m), sizeof *t, "projections in float64"), *u = t + chunk * dim;
    char *scratch = bo_alloc_raw(context, (size_t)bo_context_threads(context), own, "applying features");
    bo_status status = w && t && scratch ? BO_OK : BO_MEMORY;
    if (status == BO_OK && m) status = bo_features_dense_f64(context, features, w);
    for (size_t first = 0; status == BO_OK && first < rows; first += chunk) {
        size_t count = rows - first < chunk ? rows - first : chunk;
        for (size_t r = 0; r < count; r++)
            for (size_t j = 0; j < dim; j++) t[r * dim + j] = x[(first + r) * ldx + j] * features->factor[j];
        if (m) status = bo_gemm64(context, false, true, count, m, dim, features->u_scale, t, dim, w, dim, 0, u, m);
        reference_job job = {features, count, ldz, u, t, z + first * ldz, scratch, own};
        if (status == BO_OK) bo_parallel(context, count, reference_task, &job);
    }
    bo_free(w);
    bo_free(t);
    bo_free(scratch);
    return status;
}
