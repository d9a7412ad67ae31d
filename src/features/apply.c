/* Applies a map to rows: blocks of rows (block.c) are tasks. */
#include <string.h>
#include "../base/trace.h"
#include "block.h"
#include "gpu/map.h"
#include "inputs.h"
#include "internal.h"
#include "sparse.h"

/* ---- float: the fast path ---------------------------------------------------------------------------------------- */

typedef struct apply_job {
    const bo_features *features;
    size_t rows, ldx, ldz;
    const float *x;
    float *z;
    char *scratch;
    size_t per_worker;
} apply_job;

static void apply_task(void *arg, size_t index, int worker)
{
    const apply_job *job = arg;
    size_t first = index * BO_BLOCK_ROWS;
    size_t rows = job->rows - first < BO_BLOCK_ROWS ? job->rows - first : BO_BLOCK_ROWS;
    bo_features_forward(job->features, rows, job->x + first * job->ldx, job->ldx, job->z + first * job->ldz, job->ldz,
                        NULL, job->scratch + (size_t)worker * job->per_worker);
}

static bo_status check_strides(bo_context *context, const bo_features *features, size_t ldx, size_t ldz)
{
    if (ldx < features->desc.dim)
        return bo_fail(context, BO_INVALID, "applying features: ldx must be at least dim = %zu, found %zu",
                       features->desc.dim, ldx);
    if (ldz < features->desc.features)
        return bo_fail(context, BO_INVALID, "applying features: ldz must be at least features = %zu, found %zu",
                       features->desc.features, ldz);
    return BO_OK;
}

static bo_status apply_dense(bo_context *context, const bo_features *features, size_t rows, const float *x, size_t ldx,
                             float *z, size_t ldz)
{
    BO_SPAN(context, "features", "features");
    bool on_gpu = bo_context_is_on_gpu(context);
    if (on_gpu && !bo_gpu_map_exists(features)) { /* rows of the host: the CPU */
        bool z_on_gpu;
        BO_TRY(bo_device_owns(context, x, &on_gpu));
        BO_TRY(bo_device_owns(context, z, &z_on_gpu));
        on_gpu |= z_on_gpu;
    }
    if (on_gpu) return bo_gpu_map_apply(context, features, rows, x, ldx, z, ldz);
    apply_job job = {.features = features, .rows = rows, .ldx = ldx, .ldz = ldz, .x = x, .z = z};
    job.per_worker = bo_features_forward_bytes(features, BO_BLOCK_ROWS);
    job.scratch = bo_alloc_raw(context, (size_t)bo_context_threads(context), job.per_worker, "applying features");
    if (!job.scratch) return BO_MEMORY;
    bo_parallel(context, (rows + BO_BLOCK_ROWS - 1) / BO_BLOCK_ROWS, apply_task, &job);
    bo_free(job.scratch);
    return BO_OK;
}

bo_status bo_features_apply(bo_context *context, const bo_features *features, const bo_inputs *inputs, float *z,
                            size_t ldz)
{
    BO_REQUIRE(context, features, inputs);
    const size_t rows = bo_inputs_rows(inputs), dim = features->desc.dim;
    BO_REQUIRE_IF(context, rows > 0, z);
    BO_TRY(bo_check_inputs(context, inputs, dim, ""));
    if (rows == 0) return BO_OK;
    BO_TRY(check_strides(context, features, bo_inputs_stride(inputs, dim), ldz));
    if (inputs->sparse) return bo_features_apply_sparse(context, features, inputs->sparse, z, ldz);
    return apply_dense(context, features, rows, inputs->x, bo_inputs_stride(inputs, dim), z, ldz);
}

/* ---- double: the reference --------------------------------------------------------------------------------------- */

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
    BO_REQUIRE(context, features);
    BO_REQUIRE_IF(context, rows > 0, x, z);
    const bo_function_definition *function = features->function;
    size_t m = features->frequencies, dim = features->desc.dim, chunk = rows < 256 ? rows : 256;
    if (rows == 0) return BO_OK;
    BO_TRY(check_strides(context, features, ldx, ldz));
    if (!function->forward_f64)
        return bo_fail(context, BO_UNSUPPORTED, "function %s has no float64 reference", function->name);
    size_t scratch_bytes = function->scratch ? bo_padded_bytes(function->scratch(features)) : 0;
    double *w = bo_alloc_raw(context, m * dim, sizeof *w, "frequencies in float64");
    double *t = bo_alloc_raw(context, chunk * dim, sizeof *t, "inputs in float64");
    double *u = bo_alloc_raw(context, chunk * m, sizeof *u, "projections in float64");
    char *scratch = bo_alloc_raw(context, (size_t)bo_context_threads(context), scratch_bytes, "applying features");
    bo_status status = w && t && u && scratch ? BO_OK : BO_MEMORY;
    if (status == BO_OK && m) status = bo_features_dense_f64(context, features, w);
    for (size_t first = 0; status == BO_OK && first < rows; first += chunk) {
        size_t count = rows - first < chunk ? rows - first : chunk;
        for (size_t r = 0; r < count; r++)
            for (size_t j = 0; j < dim; j++) t[r * dim + j] = x[(first + r) * ldx + j] * features->factor[j];
        if (m) status = bo_gemm64(context, false, true, count, m, dim, features->u_scale, t, dim, w, dim, 0, u, m);
        reference_job job = {features, count, ldz, u, t, z + first * ldz, scratch, scratch_bytes};
        if (status == BO_OK) bo_parallel(context, count, reference_task, &job);
    }
    bo_free(w);
    bo_free(t);
    bo_free(u);
    bo_free(scratch);
    return status;
}
