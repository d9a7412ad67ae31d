#include "algebra.h"
#include "../../src/math/linalg.h"

bo_status lab_multiply(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha,
                       const double *a, size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc)
{
    return bo_gemm64(context, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

bo_status lab_multiply_single(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
                              const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    return bo_gemm(context, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

bo_status lab_solve_positive(bo_context *context, size_t n, size_t m, double *a, double *x)
{
    BO_TRY(bo_cholesky(context, n, a, n, NULL));
    BO_TRY(bo_solve_lower(context, n, m, a, n, x, m));
    return bo_solve_lower_t(context, n, m, a, n, x, m);
}

bo_status lab_eigen(bo_context *context, size_t n, double *a, double *values)
{
    return bo_eigen(context, n, a, n, values);
}

bo_status lab_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary)
{
    return bo_eigenvalues(context, n, a, real, imaginary);
}

bo_status lab_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt)
{
    return bo_svd(context, m, n, a, u, values, vt);
}

bo_status lab_haar(bo_context *context, size_t n, double *a)
{
    return bo_haar(context, n, n, a, n);
}

bo_status lab_ridge_readout(bo_context *context, const lab_readout *r, float *w)
{
    const bo_readout readout = {r->rows, r->features, r->outputs, r->z, r->y, r->lambda};
    return bo_ridge_readout(context, &readout, w);
}
