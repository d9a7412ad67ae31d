/* Computes C += factor ZᵀZ on the upper triangle: both factors are packed from the rows of Z, and only the tiles that
 * touch the upper triangle are multiplied. */
#include "../base/trace.h"
#include "upper.h"
#include "panel.h"
#include "../device/cpu/kernels.h"
#include "linalg.h"

/* The tile of the micro-kernel, and the bytes of a packed sliver of A (mr lines) and of B (nr lines). */
typedef struct shape {
    size_t mr, nr, sliver_a, sliver_b;
    size_t element; /* bytes of one packed number */
} shape;

typedef struct update_job {
    const bo_kernels *kernels;
    bo_upper_kind kind;
    shape tile;
    size_t n, depth;
    double factor;
    const char *z;
    size_t ldz;
    double *c;
    size_t ldc;
    char *panel_a, *panel_b;
    size_t tile_rows, tile_columns;
} update_job;

static shape shape_of(const bo_kernels *kernels, bo_upper_kind kind, size_t depth)
{
    if (kind == BO_UPPER_S8) {
        const bo_micro_s8 *micro = &kernels->gram8;
        return (shape){micro->mr, micro->nr, bo_sliver_s8(micro, micro->mr, depth),
                       bo_sliver_s8(micro, micro->nr, depth), micro->element};
    }
    bool narrow = kind == BO_UPPER_F32;
    size_t mr = narrow ? kernels->gemm.mr : kernels->gemm64.mr, nr = narrow ? kernels->gemm.nr : kernels->gemm64.nr;
    size_t element = narrow ? sizeof(float) : sizeof(double);
    return (shape){mr, nr, mr * depth * element, nr * depth * element, element};
}

bo_status bo_upper_panels_create(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, bo_upper_panels *out)
{
    shape tile = shape_of(bo_context_kernels(context), kind, depth);
    out->a = bo_alloc_raw(context, bo_ceil_div(n, tile.mr), tile.sliver_a, "a packed panel");
    out->b = bo_alloc_raw(context, bo_ceil_div(n, tile.nr), tile.sliver_b, "a packed panel");
    if (out->a && out->b) return BO_OK;
    bo_upper_panels_destroy(out);
    return BO_MEMORY;
}

void bo_upper_panels_destroy(bo_upper_panels *panels)
{
    bo_free(panels->a);
    bo_free(panels->b);
    *panels = (bo_upper_panels){0};
}

/* Packs `lines` columns of Z, starting at `first`, into slivers of A (left) or of B. The factor is applied to A, except
 * for bytes, which are packed unchanged. */
static void pack(const update_job *job, bool left, size_t first, size_t lines)
{
    size_t width = left ? job->tile.mr : job->tile.nr, depth = job->depth, ldz = job->ldz;
    void *to =
        left ? job->panel_a + first / width * job->tile.sliver_a : job->panel_b + first / width * job->tile.sliver_b;
    double factor = left ? job->factor : 1.0;
    switch (job->kind) {
    case BO_UPPER_F32:
        bo_pack_f32(job->kernels, width, lines, depth, (float)factor, (const float *)job->z + first, ldz, false, to);
        break;
    case BO_UPPER_F32_PRECISE:
        bo_pack_f32_f64(width, lines, depth, factor, (const float *)job->z + first, ldz, false, to);
        break;
    case BO_UPPER_F64:
        bo_pack_f64(width, lines, depth, factor, (const double *)job->z + first, ldz, false, to);
        break;
    case BO_UPPER_S8:
        (left ? job->kernels->gram8.pack_a : job->kernels->gram8.pack_b)(depth, lines, (const int8_t *)job->z + first,
                                                                         ldz, to);
        break;
    }
}

static void pack_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const update_job *job = arg;
    size_t blocks_a = bo_ceil_div(job->n, job->tile_rows);
    bool left = index < blocks_a;
    size_t step = left ? job->tile_rows : job->tile_columns, first = (left ? index : index - blocks_a) * step;
    pack(job, left, first, bo_min(step, job->n - first));
}

static void micro_tile(const update_job *job, size_t i, size_t j, size_t m, size_t n)
{
    double *c = job->c + i * job->ldc + j;
    const void *a = job->panel_a + i / job->tile.mr * job->tile.sliver_a;
    const void *b = job->panel_b + j / job->tile.nr * job->tile.sliver_b;
    switch (job->kind) {
    case BO_UPPER_F32:
        job->kernels->gemm.f32_f64(job->depth, a, b, c, job->ldc, m, n, true);
        break;
    case BO_UPPER_F32_PRECISE:
    case BO_UPPER_F64:
        job->kernels->gemm64.f64(job->depth, a, b, c, job->ldc, m, n, true);
        break;
    case BO_UPPER_S8:
        job->kernels->gram8.multiply(job->depth, a, b, c, job->ldc, job->factor, m, n);
        break;
    }
}

/* Returns the number of row tiles that reach the upper triangle in the column of tiles that ends before `j1`. */
static size_t tiles_down(const update_job *job, size_t j1)
{
    return bo_ceil_div(bo_min(j1, job->n), job->tile_rows);
}

static size_t tile_count(const update_job *job)
{
    size_t count = 0;
    for (size_t j = 0; j < job->n; j += job->tile_columns) count += tiles_down(job, j + job->tile_columns);
    return count;
}

static void tile_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const update_job *job = arg;
    size_t j0 = 0;
    while (index >= tiles_down(job, j0 + job->tile_columns)) {
        index -= tiles_down(job, j0 + job->tile_columns);
        j0 += job->tile_columns;
    }
    size_t i0 = index * job->tile_rows, i1 = bo_min(i0 + job->tile_rows, job->n);
    size_t j1 = bo_min(j0 + job->tile_columns, job->n);
    for (size_t i = i0; i < i1; i += job->tile.mr) {
        for (size_t j = j0; j < j1; j += job->tile.nr) {
            size_t n = bo_min(job->tile.nr, j1 - j);
            if (i < j + n) micro_tile(job, i, j, bo_min(job->tile.mr, i1 - i), n);
        }
    }
}

void bo_upper_update(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, double factor, const void *z,
                     size_t ldz, double *c, size_t ldc, const bo_upper_panels *panels)
{
    if (n == 0 || depth == 0) return;
    update_job job = {.kernels = bo_context_kernels(context), .kind = kind, .n = n, .depth = depth, .factor = factor};
    job.z = z, job.ldz = ldz, job.c = c, job.ldc = ldc;
    job.panel_a = panels->a, job.panel_b = panels->b;
    job.tile = shape_of(job.kernels, kind, depth);
    job.tile_rows = bo_whole_slivers(BO_TILE_ROWS, job.tile.mr);
    /* runs of bytes are longer: if they are packed as shorts, the tile of B must be narrower to stay in the cache */
    size_t columns = kind == BO_UPPER_S8 ? BO_TILE_COLUMNS / job.tile.element : BO_TILE_COLUMNS;
    job.tile_columns = bo_whole_slivers(columns, job.tile.nr);
    bo_parallel(context, bo_ceil_div(n, job.tile_rows) + bo_ceil_div(n, job.tile_columns), pack_task, &job);
    bo_parallel(context, tile_count(&job), tile_task, &job);
}

/* ---- Gram matrices ----------------------------------------------------------------------------------------------- */

/* The Gram matrix ZᵀZ of features, and copying one triangle of a symmetric matrix to the other. */

/* Computes the upper triangle of G += factor ZᵀZ. The rows of Z (`size` bytes per number) are processed in runs of at
 * most `max_run`. */
static bo_status gram(bo_context *context, bo_upper_kind kind, size_t size, size_t max_run, size_t n, size_t rows,
                      double factor, const void *z, size_t ldz, double *g, size_t ldg)
{
    if (n == 0 || rows == 0) return BO_OK;
    size_t run = bo_run_length(rows, max_run);
    bo_upper_panels panels;
    BO_TRY(bo_upper_panels_create(context, kind, n, run, &panels));
    for (size_t p = 0; p < rows; p += run) {
        const char *row = (const char *)z + p * ldz * size;
        bo_upper_update(context, kind, n, bo_min(run, rows - p), factor, row, ldz, g, ldg, &panels);
    }
    bo_upper_panels_destroy(&panels);
    return BO_OK;
}

bo_status bo_gram(bo_context *context, size_t n, size_t rows, const float *z, size_t ldz, double *g, size_t ldg,
                  bool precise)
{
    BO_SPAN(context, "machine", "Gram");
    return gram(context, precise ? BO_UPPER_F32_PRECISE : BO_UPPER_F32, sizeof *z,
                precise ? BO_DEPTH64 : BO_DEPTH32_GRAM, n, rows, 1.0, z, ldz, g, ldg);
}

bo_status bo_gram8(bo_context *context, size_t n, size_t rows, const int8_t *q, size_t ldq, double scale, double *g,
                   size_t ldg)
{
    BO_SPAN(context, "machine", "Gram");
    return gram(context, BO_UPPER_S8, sizeof *q, BO_DEPTH8, n, rows, scale, q, ldq, g, ldg);
}

/* ---- symmetric matrices from one triangle ------------------------------------------------------------------------ */

/* Copies the upper triangle of a symmetric matrix to the lower, from one source for both precisions. */

typedef struct mirror_job {
    size_t n, ld;
    void *matrix;
} mirror_job;

/* Lines per block: two blocks fit in any first-level cache. */
#define BLOCK(TYPE) (256 / sizeof(TYPE))

/* TASK: transposes the blocks right of the diagonal in one row of blocks to below the diagonal. */
#define MIRROR(TYPE, TASK, NAME)                                                                                       \
    static void TASK(void *arg, size_t index, int worker)                                                              \
    {                                                                                                                  \
        (void)worker;                                                                                                  \
        const mirror_job *job = arg;                                                                                   \
        TYPE *a = job->matrix;                                                                                         \
        size_t i0 = index * BLOCK(TYPE), i1 = bo_min(i0 + BLOCK(TYPE), job->n);                                        \
        for (size_t j0 = i0; j0 < job->n; j0 += BLOCK(TYPE)) {                                                         \
            size_t j1 = bo_min(j0 + BLOCK(TYPE), job->n);                                                              \
            for (size_t j = j0; j < j1; j++) {                                                                         \
                for (size_t i = i0; i < i1 && i < j; i++) a[j * job->ld + i] = a[i * job->ld + j];                     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    void NAME(bo_context *context, size_t n, TYPE *a, size_t lda)                                                      \
    {                                                                                                                  \
        mirror_job job = {n, lda, a};                                                                                  \
        bo_parallel(context, bo_ceil_div(n, BLOCK(TYPE)), TASK, &job);                                                 \
    }

MIRROR(double, mirror_task64, bo_symmetrize)
MIRROR(float, mirror_task32, bo_symmetrize32)
