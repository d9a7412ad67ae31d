/* A constant right-hand factor, packed once and multiplied many times: the frequencies of a feature map. */
#include <string.h>
#include "linalg.h"
#include "panel.h"
#include "../kernels/kernels.h"

/* panels: run after run along k, each a panel of n lines (run r starts at lines * r * run floats). */
struct bo_packed {
    bo_micro micro;
    size_t n, k, run, lines; /* lines: n rounded up to whole slivers */
    size_t tile_rows, tile_columns;
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
    bo_pack_f32(packed->micro.nr, packed->n, depth, 1.0f, job->b + p, job->ldb, true,
                packed->panels + packed->lines * p);
}

bo_status bo_packed_create(bo_context *context, size_t n, size_t k, const float *b, size_t ldb, bo_packed **out)
{
    *out = NULL;
    bo_packed *packed = bo_alloc(context, 1, sizeof *packed, "a packed factor");
    if (!packed) return BO_MEMORY;
    packed->micro = bo_context_kernels(context)->gemm;
    packed->n = n;
    packed->k = k;
    packed->run = bo_run_length(k, BO_DEPTH32);
    packed->lines = bo_round_up(n, packed->micro.nr);
    packed->tile_rows = bo_whole_slivers(BO_TILE_ROWS, packed->micro.mr);
    packed->tile_columns = bo_whole_slivers(BO_TILE_COLUMNS, packed->micro.nr);
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

size_t bo_packed_scratch(const bo_packed *packed, size_t m)
{
    size_t rows = bo_smaller(bo_round_up(m, packed->micro.mr), packed->tile_rows);
    return rows * packed->run * sizeof(float);
}

/* One run along k of at most tile_rows rows: their panel of A is in `panel`. */
static void multiply_run(const bo_packed *packed, size_t m, size_t p, const float *panel, float *c, size_t ldc)
{
    size_t mr = packed->micro.mr, nr = packed->micro.nr, depth = bo_smaller(packed->run, packed->k - p);
    const float *b = packed->panels + packed->lines * p;
    for (size_t j0 = 0; j0 < packed->n; j0 += packed->tile_columns) {
        size_t j1 = bo_smaller(j0 + packed->tile_columns, packed->n);
        for (size_t i = 0; i < m; i += mr) {
            for (size_t j = j0; j < j1; j += nr) {
                packed->micro.f32(depth, panel + i * depth, b + j * depth, c + i * ldc + j, ldc, bo_smaller(mr, m - i),
                                  bo_smaller(nr, j1 - j));
            }
        }
    }
}

void bo_packed_multiply(const bo_packed *packed, size_t m, const float *a, size_t lda, float *c, size_t ldc,
                        void *scratch)
{
    for (size_t i = 0; i < m; i += packed->tile_rows) {
        size_t rows = bo_smaller(packed->tile_rows, m - i);
        for (size_t r = 0; r < rows; r++) memset(c + (i + r) * ldc, 0, packed->n * sizeof *c);
        for (size_t p = 0; p < packed->k; p += packed->run) {
            bo_pack_f32(packed->micro.mr, rows, bo_smaller(packed->run, packed->k - p), 1.0f, a + i * lda + p, lda,
                        true, scratch);
            multiply_run(packed, rows, p, scratch, c + i * ldc, ldc);
        }
    }
}
