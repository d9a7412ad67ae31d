/* Features of sparse rows. The projection multiplies only the nonzero values: a task computes some frequencies
 * of all rows, so that their parts of w are read once. */
#include "../base/trace.h"
#include "../io/sparse.h"
#include "internal.h"
#include "sparse.h"

enum { FREQUENCIES = BO_SIZE(16, 2) };

typedef struct sparse_job {
    const bo_features *features;
    const bo_sparse *x;
    const float *value; /* the nonzero values of x, times the factors of their columns */
    float *z;
    size_t ldz;
} sparse_job;

static void project_task(void *arg, size_t index, int worker)
{
    const sparse_job *job = arg;
    const bo_features *f = job->features;
    const bo_sparse *x = job->x;
    size_t end = (index + 1) * FREQUENCIES < f->frequencies ? (index + 1) * FREQUENCIES : f->frequencies;
    (void)worker;
    for (size_t i = index * FREQUENCIES; i < end; i++) {
        const float *w = f->w + i * f->desc.dim;
        for (size_t r = 0; r < x->rows; r++) {
            double sum = 0;
            for (size_t k = x->start[r]; k < x->start[r + 1]; k++)
                sum += (double)w[x->column[k]] * (double)job->value[k - x->start[0]];
            job->z[r * job->ldz + i] = (float)sum;
        }
    }
}

static void function_task(void *arg, size_t index, int worker)
{
    const sparse_job *job = arg;
    size_t first = index * BO_BLOCK_ROWS, left = job->x->rows - first;
    (void)worker;
    job->features->function->fast(job->features, left < BO_BLOCK_ROWS ? left : BO_BLOCK_ROWS, NULL, 0,
                                  job->z + first * job->ldz, job->ldz, NULL);
}

static bo_status apply_numbers(bo_context *context, const bo_features *f, const bo_sparse *x, float *z, size_t ldz)
{
    size_t numbers = bo_sparse_numbers(x);
    float *value = bo_alloc_raw(context, numbers, sizeof *value, "scaled numbers of sparse rows");
    if (!value) return BO_MEMORY;
    for (size_t k = 0; k < numbers; k++) value[k] = x->value[x->start[0] + k] * f->slope[x->column[x->start[0] + k]];
    sparse_job job = {f, x, value, z, ldz};
    bo_parallel(context, (f->frequencies + FREQUENCIES - 1) / FREQUENCIES, project_task, &job);
    bo_parallel(context, (x->rows + BO_BLOCK_ROWS - 1) / BO_BLOCK_ROWS, function_task, &job);
    bo_free(value);
    return BO_OK;
}

typedef struct dense_job {
    const bo_features *features;
    float *z;
    size_t ldz;
} dense_job;

static bo_status apply_dense(bo_context *context, void *arg, size_t first, size_t count, const float *x)
{
    const dense_job *job = arg;
    return bo_features_apply(context, job->features,
                             &(bo_inputs){.rows = count, .x = x, .stride = job->features->desc.dim},
                             job->z + first * job->ldz, job->ldz);
}

bo_status bo_features_apply_sparse(bo_context *context, const bo_features *features, const bo_sparse *x, float *z,
                                   size_t ldz)
{
    BO_SPAN(context, "features", "features of sparse rows");
    if (x->rows == 0) return BO_OK;
    bool by_projection =
        features->w && features->function->fast && bo_kernel_find(features->desc.kernel)->shift_invariant;
    if (by_projection) return apply_numbers(context, features, x, z, ldz);
    dense_job job = {features, z, ldz};
    return bo_sparse_expand_blocks(context, x, apply_dense, &job);
}

/* ---- kernel matrix ----------------------------------------------------------------------------------------------- */

typedef struct kernel_job {
    const bo_features_desc *desc;
    const bo_kernel_definition *kernel;
    const bo_sparse *x;
    double *k;
} kernel_job;

/* One row of the lower triangle, and the same numbers in the column above the diagonal. */
static void kernel_task(void *arg, size_t row, int worker)
{
    const kernel_job *job = arg;
    size_t rows = job->x->rows;
    (void)worker;
    for (size_t j = 0; j <= row; j++) {
        const bo_sparse_pair found = bo_sparse_compare(job->x, row, j, job->desc->length_scales, job->desc->gamma);
        const bo_pair pair = {.distance2 = found.square, .distance1 = found.sum, .product = found.product};
        job->k[row * rows + j] = job->k[j * rows + row] = job->kernel->value(job->desc, &pair);
    }
}

bo_status bo_kernel_matrix_sparse(bo_context *context, const bo_features_desc *desc, const bo_sparse *x, double *k)
{
    bo_features_desc resolved;
    BO_TRY(bo_kernel_resolve(context, desc, &resolved));
    const bo_kernel_definition *kernel = bo_kernel_find(resolved.kernel);
    if (!kernel->shift_invariant)
        return bo_fail(context, BO_UNSUPPORTED, "kernel matrix: sparse rows need a shift-invariant kernel, found %s",
                       kernel->name);
    kernel_job job = {&resolved, kernel, x, k};
    bo_parallel(context, x->rows, kernel_task, &job);
    return BO_OK;
}
