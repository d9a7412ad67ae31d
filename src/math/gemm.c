/* General matrix product on packed panels (Goto and van de Geijn 2008), from one source for all precisions. */
#include <stdint.h>
#include <string.h>
#include "gemv.h"
#include "linalg.h"
#include "panel.h"
#include "../device/cpu/kernels.h"

/* A product of float32 matrices, in float32. */
#define TYPE            float
#define PACKED          float
#define PRODUCT         bo_gemm_product
#define PACK_A(...)     bo_pack_f32(job->kernels, job->mr, __VA_ARGS__)
#define PACK_B(...)     bo_pack_f32(job->kernels, job->nr, __VA_ARGS__)
#define STORED(product) ((product)->stored != BO_STORED_FLOAT32)
#define PACK_STORED(product, line, lines, panel)                                                                       \
    bo_stored_pack(job->kernels, (product)->stored, job->nr, lines, job->length, job->depth, job->k,                   \
                   (const char *)(product)->b + (line) * bo_stored_line((product)->stored, job->length), panel)
#define DEPTH            BO_DEPTH32
#define DEPTH_STEP       1
#define TILE_ROWS        BO_TILE_ROWS
#define TILE_COLUMNS     BO_TILE_COLUMNS
#define MR               kernels->gemm.mr
#define NR               kernels->gemm.nr
#define KERNEL           kernels->gemm.f32
#define PREPARE(kernels) (void)0
#define NAMED(name)      name##32
#include "gemm_names.h"
#include "gemm_body.h"

/* A product of float32 matrices, rounded to bfloat16 when they are packed. */
#define TYPE            float
#define PACKED          uint16_t
#define PRODUCT         bo_gemm_product
#define PACK_A(...)     job->kernels->bf16->pack_a(__VA_ARGS__)
#define PACK_B(...)     job->kernels->bf16->pack_b(__VA_ARGS__)
#define STORED(product) ((product)->stored != BO_STORED_FLOAT32)
#define PACK_STORED(product, line, lines, panel)                                                                       \
    bo_stored_pack_bf16(job->kernels, (product)->stored, lines, job->length, job->depth, job->k,                       \
                        (const char *)(product)->b + (line) * bo_stored_line((product)->stored, job->length), panel)
#define DEPTH            BO_DEPTH_BF16
#define DEPTH_STEP       BO_BF16_DEPTH
#define TILE_ROWS        BO_TILE_ROWS_BF16
#define TILE_COLUMNS     BO_TILE_COLUMNS_BF16
#define MR               BO_BF16_TILE
#define NR               BO_BF16_TILE
#define KERNEL           kernels->bf16->multiply
#define PREPARE(kernels) bo_bf16_prepare((kernels)->bf16)
#define NAMED(name)      name##_bf16
#include "gemm_names.h"
#include "gemm_body.h"

/* bo_gemm_product in double. */
typedef struct product64 {
    size_t n;
    bool tb;
    const double *b;
    size_t ldb;
    double beta;
    const double *base;
    size_t ldbase;
    const double *row;
    double *c;
    size_t ldc;
} product64;

#define TYPE             double
#define PACKED           double
#define PRODUCT          product64
#define PACK_A(...)      bo_pack_f64(job->mr, __VA_ARGS__)
#define PACK_B(...)      bo_pack_f64(job->nr, __VA_ARGS__)
#define STORED(product)  false
#define PACK_STORED(...) (void)0
#define DEPTH            BO_DEPTH64
#define DEPTH_STEP       1
#define TILE_ROWS        BO_TILE_ROWS
#define TILE_COLUMNS     BO_TILE_COLUMNS
#define MR               kernels->gemm64.mr
#define NR               kernels->gemm64.nr
#define KERNEL           kernels->gemm64.f64
#define PREPARE(kernels) (void)0
#define NAMED(name)      name##64
#include "gemm_names.h"
#include "gemm_body.h"

size_t bo_gemm64_bytes(bo_context *context, size_t m, size_t n, size_t k)
{
    product64 product = {.n = n}, narrow = {.n = bo_min(n, bo_context_kernels(context)->gemm64.nr - 1)};
    size_t direct = workspace64(context, m, k, 1, &product);
    return bo_max(direct, workspace64(context, m, k, 1, &narrow)); /* the narrow one may be transposed */
}

void bo_gemm64_in(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha, const double *a,
                  size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc, void *workspace)
{
    product64 product = {.n = n, .tb = tb, .b = b, .ldb = ldb, .beta = beta, .c = c, .ldc = ldc};
    multiply64(context, ta, m, k, alpha, a, lda, 1, &product, false, workspace);
}

void bo_gemm64_upper(bo_context *context, size_t n, size_t k, double alpha, const double *a, const double *b, size_t ld,
                     double *c, size_t ldc, void *workspace)
{
    product64 product = {.n = n, .b = b, .ldb = ld, .beta = 1, .c = c, .ldc = ldc};
    multiply64(context, true, n, k, alpha, a, ld, 1, &product, true, workspace);
}

bo_status bo_gemm64(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha, const double *a,
                    size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc)
{
    void *workspace = bo_alloc_raw(context, bo_gemm64_bytes(context, m, n, k), 1, "packed factors");
    if (!workspace) return BO_MEMORY;
    bo_gemm64_in(context, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, workspace);
    bo_free(workspace);
    return BO_OK;
}

bo_status bo_gemm(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    bo_gemm_product product = {.n = n, .tb = tb, .b = b, .ldb = ldb, .beta = beta, .c = c, .ldc = ldc};
    void *workspace = bo_alloc_raw(context, workspace32(context, m, k, 1, &product), 1, "packed factors");
    if (!workspace) return BO_MEMORY;
    multiply32(context, ta, m, k, alpha, a, lda, 1, &product, false, workspace);
    bo_free(workspace);
    return BO_OK;
}

/* Few rows are limited by the bandwidth of the matrix, so their products are in float32 in any precision. */
size_t bo_gemm_shared_bytes(bo_context *context, bo_precision precision, size_t m, size_t k, size_t count,
                            const bo_gemm_product *products)
{
    size_t packed = precision == BO_PRECISION_BFLOAT16 ? workspace_bf16(context, m, k, count, products)
                                                       : workspace32(context, m, k, count, products);
    return bo_max(packed, bo_gemv_bytes(m, k, count, products));
}

void bo_gemm_shared(bo_context *context, bo_precision precision, bool ta, size_t m, size_t k, float alpha,
                    const float *a, size_t lda, size_t count, const bo_gemm_product *products, void *workspace)
{
    if (bo_gemv(precision, ta, m, k, count, products))
        bo_gemv_multiply(context, m, k, alpha, a, lda, count, products, workspace);
    else if (precision == BO_PRECISION_BFLOAT16)
        multiply_bf16(context, ta, m, k, alpha, a, lda, count, products, false, workspace);
    else
        multiply32(context, ta, m, k, alpha, a, lda, count, products, false, workspace);
}

size_t bo_gemm_bytes(bo_context *context, bo_precision precision, size_t m, size_t n, size_t k)
{
    bo_gemm_product product = {.n = n};
    return bo_gemm_shared_bytes(context, precision, m, k, 1, &product);
}

void bo_gemm_in(bo_context *context, bo_precision precision, bool ta, bool tb, size_t m, size_t n, size_t k,
                float alpha, const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc,
                void *workspace)
{
    bo_gemm_product product = {.n = n, .tb = tb, .b = b, .ldb = ldb, .beta = beta, .c = c, .ldc = ldc};
    bo_gemm_shared(context, precision, ta, m, k, alpha, a, lda, 1, &product, workspace);
}

void bo_gemm_symmetric(bo_context *context, bo_precision precision, bool ta, size_t n, size_t k, float alpha,
                       const float *a, size_t lda, float beta, const float *base, float *c, size_t ldc, void *workspace)
{
    bo_gemm_product product = {.n = n, .tb = !ta, .b = a, .ldb = lda, .beta = beta, .base = base, .ldbase = ldc};
    product.c = c, product.ldc = ldc;
    (precision == BO_PRECISION_BFLOAT16 ? multiply_bf16 : multiply32)(context, ta, n, k, alpha, a, lda, 1, &product,
                                                                      true, workspace);
    bo_symmetrize32(context, n, c, ldc);
}
