/* A constant right-hand factor that is packed once and multiplied many times, such as the frequencies of a feature map.
 * In float32 the left-hand factor is not packed: the blocks of rows are small enough for the cache. */
#include <stdint.h>
#include "linalg.h"
#include "panel.h"
#include "../device/cpu/kernels.h"

enum { WIDE = 64, SHALLOW = 128 };

/* panels: one panel of n lines per run along k (run r starts at element lines * r * run). A sliver is a small dense
 * matrix, depth x width, that stays in the first-level cache while all rows are multiplied by it; in bfloat16 it has
 * the layout of device/cpu/bf16.h, and the depth of the last run is padded. */
struct bo_packed {
    const bo_kernels *kernels;
    bo_precision precision;
    size_t n, k, run, width, lines; /* lines: n rounded up to whole slivers of `width` */
    void *panels;                   /* stored after this structure in the same memory */
};

enum { RUN_BF16 = BO_SIZE(256, 32), ROWS_BF16 = BO_BF16_TILE };

/* Returns the offset of the panels in bytes. */
static size_t head_bytes(void)
{
    return bo_padded_bytes(sizeof(bo_packed));
}

static bo_packed plan(bo_context *context, bo_precision precision, size_t n, size_t k)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    if (precision == BO_PRECISION_BFLOAT16)
        return (bo_packed){.kernels = kernels,
                           .precision = precision,
                           .n = n,
                           .k = k,
                           .run = RUN_BF16,
                           .width = BO_BF16_LINES,
                           .lines = bo_round_up(n, BO_BF16_LINES)};
    /* With few rows, a wide sliver computes more sums at a time; it must fit in the first-level cache. */
    size_t width = k <= SHALLOW ? WIDE : kernels->gemm.nr;
    return (bo_packed){.kernels = kernels,
                       .n = n,
                       .k = k,
                       .run = bo_run_length(k, BO_DEPTH32),
                       .width = width,
                       .lines = bo_round_up(n, width)};
}

typedef struct pack_job {
    const bo_packed *packed;
    bool tb;
    const float *b;
    size_t ldb;
} pack_job;

/* Task: one run along k. */
static void pack_run(void *arg, size_t index, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    const bo_packed *packed = job->packed;
    size_t p = index * packed->run, depth = bo_min(packed->run, packed->k - p);
    const float *from = job->b + (job->tb ? p : p * job->ldb);
    if (packed->precision == BO_PRECISION_BFLOAT16)
        packed->kernels->bf16->pack_b(packed->n, depth, 1, from, job->ldb, job->tb,
                                      (uint16_t *)packed->panels + packed->lines * p);
    else
        bo_pack_f32(packed->kernels, packed->width, packed->n, depth, 1.0f, from, job->ldb, job->tb,
                    (float *)packed->panels + packed->lines * p);
}

static size_t plan_bytes(const bo_packed *packed)
{
    if (packed->precision == BO_PRECISION_BFLOAT16) return packed->lines * bo_bf16_depth(packed->k) * sizeof(uint16_t);
    return packed->lines * packed->k * sizeof(float);
}

size_t bo_packed_bytes(bo_context *context, bo_precision precision, size_t n, size_t k)
{
    bo_packed packed = plan(context, precision, n, k);
    return head_bytes() + plan_bytes(&packed);
}

const bo_packed *bo_packed_in(bo_context *context, bo_precision precision, bool tb, size_t n, size_t k, const float *b,
                              size_t ldb, void *buffer)
{
    bo_packed *packed = buffer;
    *packed = plan(context, precision, n, k);
    packed->panels = (char *)buffer + head_bytes();
    pack_job job = {packed, tb, b, ldb};
    if (k > 0) bo_parallel(context, bo_ceil_div(k, packed->run), pack_run, &job);
    return packed;
}

bo_status bo_packed_create(bo_context *context, bo_precision precision, size_t n, size_t k, const float *b, size_t ldb,
                           bo_packed **out)
{
    void *buffer = bo_alloc_raw(context, bo_packed_bytes(context, precision, n, k), 1, "a packed factor");
    *out = NULL;
    if (!buffer) return BO_MEMORY;
    bo_packed_in(context, precision, true, n, k, b, ldb, buffer);
    *out = buffer;
    return BO_OK;
}

void bo_packed_destroy(bo_packed *packed)
{
    bo_free(packed);
}

/* Packs some rows at a time. */
static void multiply_rounded(const bo_packed *packed, size_t m, const float *a, size_t lda, float *c, size_t ldc)
{
    _Alignas(64) uint16_t rows[ROWS_BF16 * RUN_BF16];
    const bo_micro_bf16 *micro = packed->kernels->bf16;
    bo_bf16_prepare(micro);
    for (size_t i = 0; i < m; i += ROWS_BF16) {
        size_t p = 0, count = bo_min(ROWS_BF16, m - i);
        do { /* runs at least once: C is overwritten if k = 0 */
            size_t depth = bo_min(packed->run, packed->k - p), line = bo_bf16_depth(depth);
            const uint16_t *panel = (const uint16_t *)packed->panels + packed->lines * p;
            micro->pack_a(count, depth, 1, a + i * lda + p, lda, true, rows);
            for (size_t j = 0; j < packed->n; j += BO_BF16_TILE)
                micro->multiply(depth, rows, panel + j * line, c + i * ldc + j, ldc, count,
                                bo_min(BO_BF16_TILE, packed->n - j), p > 0);
            p += depth;
        } while (p < packed->k);
    }
}

void bo_packed_multiply(const bo_packed *packed, size_t m, const float *a, size_t lda, float *c, size_t ldc)
{
    if (packed->precision == BO_PRECISION_BFLOAT16) {
        multiply_rounded(packed, m, a, lda, c, ldc);
        return;
    }
    for (size_t j = 0; j < packed->n; j += packed->width) {
        size_t p = 0, columns = bo_min(packed->width, packed->n - j);
        do { /* runs at least once: C is overwritten if k = 0 */
            size_t depth = bo_min(packed->run, packed->k - p);
            const float *sliver = (const float *)packed->panels + packed->lines * p + j * depth;
            packed->kernels->multiply(m, columns, depth, a + p, lda, 1, sliver, packed->width, p > 0, c + j, ldc);
            p += depth;
        } while (p < packed->k);
    }
}
