#include "kernels.h"
#include "../../src/features/block.h"
#include "../../src/math/linalg.h"

bo_status lab_products(bo_context *context, size_t rows, size_t features, const float *z, float *estimate)
{
    return bo_gemm(context, false, true, rows, rows, features, 1, z, features, z, features, 0, estimate, rows);
}

bo_status lab_estimate_kernel(bo_context *context, const bo_features_desc *desc, size_t rows, const float *x,
                              float *estimate)
{
    bo_features *map;
    BO_TRY(bo_features_create(context, desc, &map));
    const size_t features = bo_features_describe(map)->features;
    float *z = bo_alloc_raw(context, rows * features, sizeof *z, "features");
    bo_status status = z ? bo_features_apply(context, map, &(bo_inputs){.rows = rows, .x = x}, z, features) : BO_MEMORY;
    if (status == BO_OK) status = lab_products(context, rows, features, z, estimate);
    bo_free(z);
    bo_features_destroy(map);
    return status;
}

double lab_squared_error(size_t count, const float *estimate, const double *kernel)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += ((double)estimate[i] - kernel[i]) * ((double)estimate[i] - kernel[i]);
    return sum / (double)count;
}

/* k: rows x rows, overwritten; alpha: rows, y on entry. */
static bo_status solve(bo_context *context, size_t rows, double lambda, double *k, double *alpha)
{
    for (size_t i = 0; i < rows; i++) k[i * rows + i] += lambda;
    BO_TRY(bo_cholesky(context, rows, k, rows, NULL));
    BO_TRY(bo_solve_lower(context, rows, 1, k, rows, alpha, 1));
    return bo_solve_lower_t(context, rows, 1, k, rows, alpha, 1);
}

/* k has the capacity for rows² and for other_rows x rows numbers. */
static bo_status predict(bo_context *context, const lab_kernel_ridge *r, double *k, double *alpha, double *prediction)
{
    const size_t n = r->rows, dim = r->kernel->dim;
    for (size_t i = 0; i < n; i++) alpha[i] = r->y[i];
    BO_TRY(bo_kernel_matrix(context, r->kernel, n, r->x, dim, n, r->x, dim, k, n));
    BO_TRY(solve(context, n, r->lambda, k, alpha));
    BO_TRY(bo_kernel_matrix(context, r->kernel, r->other_rows, r->other, dim, n, r->x, dim, k, n));
    return bo_gemm64(context, false, false, r->other_rows, 1, n, 1, k, n, alpha, 1, 0, prediction, 1);
}

bo_status lab_kernel_ridge_predict(bo_context *context, const lab_kernel_ridge *ridge, double *prediction)
{
    const size_t max_rows = ridge->rows > ridge->other_rows ? ridge->rows : ridge->other_rows;
    double *k = bo_alloc_raw(context, max_rows * ridge->rows, sizeof *k, "a kernel matrix");
    double *alpha = bo_alloc_raw(context, ridge->rows, sizeof *alpha, "dual coefficients");
    bo_status status = k && alpha ? predict(context, ridge, k, alpha, prediction) : BO_MEMORY;
    bo_free(k);
    bo_free(alpha);
    return status;
}

double lab_argument_scale(const bo_features *map)
{
    return bo_features_argument_scale(map);
}
