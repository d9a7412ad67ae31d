/* General matrix product on packed panels (Goto and van de Geijn 2008), from one source for both precisions. */
#include <string.h>
#include "gemv.h"
#include "linalg.h"
#include "panel.h"
#include "../kernels/kernels.h"

#define TYPE            float
#define PRODUCT         bo_gemm_product
#define GEMM            bo_gemm
#define PACK(...)       bo_pack_f32(job->kernels, __VA_ARGS__)
#define STORED(product) ((product)->stored != BO_STORED_FLOAT32)
#define PACK_STORED(product, line, lines, panel)                                                                       \
    bo_stored_pack(job->kernels, (product)->stored, job->nr, lines, job->length, job->depth, job->k,                   \
                   (const char *)(product)->b + (line)*bo_stored_line((product)->stored, job->length), panel)
#define DEPTH          BO_DEPTH32
#define MICRO          gemm
#define KERNEL         f32
#define JOB            job32
#define JOB_FOR        job_for32
#define FIND_TILE      find_tile32
#define PACK_TASK      pack_task32
#define BEGIN          begin32
#define TILE_TASK      tile_task32
#define SLOT           slot32
#define TILES          tiles32
#define BLOCK_ROWS     block_rows32
#define PANEL_A        panel_a32
#define MAY_SWAP       may_swap32
#define BETTER_SWAPPED better_swapped32
#define ROOM           room32
#define ROW_BLOCK      row_block32
#define SWAPPED        swapped32
#define MULTIPLY       multiply32
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
#define PRODUCT          product64
#define GEMM             bo_gemm64
#define PACK(...)        bo_pack_f64(__VA_ARGS__)
#define STORED(product)  false
#define PACK_STORED(...) (void)0
#define DEPTH            BO_DEPTH64
#define MICRO            gemm64
#define KERNEL           f64
#define JOB              job64
#define JOB_FOR          job_for64
#define FIND_TILE        find_tile64
#define PACK_TASK        pack_task64
#define BEGIN            begin64
#define TILE_TASK        tile_task64
#define SLOT             slot64
#define TILES            tiles64
#define BLOCK_ROWS       block_rows64
#define PANEL_A          panel_a64
#define MAY_SWAP         may_swap64
#define BETTER_SWAPPED   better_swapped64
#define ROOM             room64
#define ROW_BLOCK        row_block64
#define SWAPPED          swapped64
#define MULTIPLY         multiply64
#include "gemm_body.h"

size_t bo_gemm64_bytes(bo_context *context, size_t m, size_t n, size_t k)
{
    product64 product = {.n = n}, narrow = {.n = bo_min(n, bo_context_kernels(context)->gemm64.nr - 1)};
    size_t direct = room64(context, m, k, 1, &product);
    return bo_max(direct, room64(context, m, k, 1, &narrow)) * sizeof(double); /* the narrow one may be transposed */
}

void bo_gemm64_in(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha, const double *a,
                  size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc, void *room)
{
    product64 product = {.n = n, .tb = tb, .b = b, .ldb = ldb, .beta = beta, .c = c, .ldc = ldc};
    multiply64(context, ta, m, k, alpha, a, lda, 1, &product, false, room);
}

void bo_gemm64_upper(bo_context *context, size_t n, size_t k, double alpha, const double *a, const double *b, size_t ld,
                     double *c, size_t ldc, void *room)
{
    product64 product = {.n = n, .b = b, .ldb = ld, .beta = 1, .c = c, .ldc = ldc};
    multiply64(context, true, n, k, alpha, a, ld, 1, &product, true, room);
}

size_t bo_gemm_shared_bytes(bo_context *context, size_t m, size_t k, size_t count, const bo_gemm_product *products)
{
    size_t packed = room32(context, m, k, count, products) * sizeof(float), few = bo_gemv_bytes(m, k, count, products);
    return packed > few ? packed : few;
}

void bo_gemm_shared(bo_context *context, bool ta, size_t m, size_t k, float alpha, const float *a, size_t lda,
                    size_t count, const bo_gemm_product *products, void *room)
{
    if (bo_gemv(ta, m, count, products)) {
        bo_gemv_multiply(context, m, k, alpha, a, lda, count, products, room);
        return;
    }
    multiply32(context, ta, m, k, alpha, a, lda, count, products, false, room);
}

size_t bo_gemm_bytes(bo_context *context, size_t m, size_t n, size_t k)
{
    bo_gemm_product product = {.n = n};
    return bo_gemm_shared_bytes(context, m, k, 1, &product);
}

void bo_gemm_in(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc, void *room)
{
    bo_gemm_product product = {.n = n, .tb = tb, .b = b, .ldb = ldb, .beta = beta, .c = c, .ldc = ldc};
    bo_gemm_shared(context, ta, m, k, alpha, a, lda, 1, &product, room);
}

void bo_gemm_symmetric(bo_context *context, bool ta, size_t n, size_t k, float alpha, const float *a, size_t lda,
                       float beta, const float *base, float *c, size_t ldc, void *room)
{
    bo_gemm_product product = {.n = n, .tb = !ta, .b = a, .ldb = lda, .beta = beta, .base = base, .ldbase = ldc};
    product.c = c, product.ldc = ldc;
    multiply32(context, ta, n, k, alpha, a, lda, 1, &product, true, room);
    bo_symmetrize32(context, n, c, ldc);
}
