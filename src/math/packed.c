/* A constant right-hand factor, packed once and multiplied many times: the frequencies of a feature map. The left-hand one
 * is taken as it lies: blocks of rows that are multiplied are small enough for the cache. */
#include "linalg.h"
#include "panel.h"
#include "../kernels/kernels.h"

enum { WIDE = 64, SHALLOW = 128 };

/* panels: run after run along k, each a panel of n lines (run r starts at lines * r * run floats). A sliver is then a small
 * dense matrix, depth x width, that stays in the first-level cache while all rows are multiplied by it. */
struct bo_packed {
    const bo_kernels *kernels;
    size_t n, k, run, width, lines; /* lines: n rounded up to whole slivers of `width` */
    float *panels;
};

typedef struct pack_job {
    bo_packed *packed;
    const float *b;
    size_t ldb;
} pack_job;

/* Task: one run along k. */
static void pack_run(void *arg, size_t index, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    const bo_packed *packed = job->packed;
    size_t p = index * packed->run, depth = bo_smaller(packed->run, packed->k - p);
    bo_pack_f32(packed->kernels, packed->width, packed->n, depth, 1.0f, job->b + p, job->ldb, true,
                packed->panels + packed->lines * p);
}

bo_status bo_packed_create(bo_context *context, size_t n, size_t k, const float *b, size_t ldb, bo_packed **out)
{
    *out = NULL;
    bo_packed *packed = bo_alloc(context, 1, sizeof *packed, "a packed factor");
    if (!packed) return BO_MEMORY;
    packed->kernels = bo_context_kernels(context);
    /* A wide sliver gives few rows more sums at a time, as long as it fits the first-level cache. */
    packed->width = k <= SHALLOW ? WIDE : packed->kernels->gemm.nr;
    packed->n = n;
    packed->k = k;
    packed->run = bo_run_length(k, BO_DEPTH32);
    packed->lines = bo_round_up(n, packed->width);
    packed->panels = bo_alloc_raw(context, packed->lines * k, sizeof(float), "a packed factor");
    if (!packed->panels) {
        bo_packed_destroy(packed);
        return BO_MEMORY;
    }
    pack_job job = {packed, b, ldb};
    if (k > 0) bo_parallel(context, bo_ceil_div(k, packed->run), pack_run, &job);
    *out = packed;
    return BO_OK;
}

void bo_packed_destroy(bo_packed *packed)
{
    if (!packed) return;
    bo_free(packed->panels);
    bo_free(packed);
}

void bo_packed_multiply(const bo_packed *packed, size_t m, const float *a, size_t lda, float *c, size_t ldc)
{
    for (size_t j = 0; j < packed->n; j += packed->width) {
        size_t p = 0, columns = bo_smaller(packed->width, packed->n - j);
        do { /* at least once: C is overwritten where k = 0 */
            size_t depth = bo_smaller(packed->run, packed->k - p);
            const float *sliver = packed->panels + packed->lines * p + j * depth;
            packed->kernels->multiply(m, columns, depth, a + p, lda, 1, sliver, packed->width, p > 0, c + j, ldc);
            p += depth;
        } while (p < packed->k);
    }
}
