/* C += ± ZᵀZ on the upper triangle: both factors are packed from the rows of Z, and only the tiles that touch
 * the upper triangle are multiplied. */
#include "upper.h"
#include "panel.h"
#include "../kernels/kernels.h"

typedef struct update_job {
    const bo_kernels *kernels;
    bo_upper_kind kind;
    size_t mr, nr, n, depth;
    int sign;
    const void *z;
    size_t ldz;
    double *c;
    size_t ldc;
    void *panel_a, *panel_b;
    size_t tile_rows, tile_columns;
} update_job;

static void tile_of(const bo_kernels *kernels, bo_upper_kind kind, size_t *mr, size_t *nr)
{
    bool narrow = kind == BO_UPPER_F32;
    *mr = narrow ? kernels->gemm.mr : kernels->gemm64.mr;
    *nr = narrow ? kernels->gemm.nr : kernels->gemm64.nr;
}

bo_status bo_upper_panels_create(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, bo_upper_panels *out)
{
    size_t mr, nr, size = kind == BO_UPPER_F32 ? sizeof(float) : sizeof(double);
    tile_of(bo_context_kernels(context), kind, &mr, &nr);
    out->a = bo_alloc_raw(context, bo_round_up(n, mr) * depth, size, "a packed panel");
    out->b = bo_alloc_raw(context, bo_round_up(n, nr) * depth, size, "a packed panel");
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

/* Packs `lines` columns of Z from `first` on into a panel of slivers of `width`. */
static void pack(const update_job *job, size_t width, size_t first, size_t lines, int sign, void *panel)
{
    size_t at = first * job->depth;
    switch (job->kind) {
    case BO_UPPER_F32:
        bo_pack_f32(width, lines, job->depth, (float)sign, (const float *)job->z + first, job->ldz, false,
                    (float *)panel + at);
        break;
    case BO_UPPER_F32_PRECISE:
        bo_pack_f32_f64(width, lines, job->depth, sign, (const float *)job->z + first, job->ldz, false,
                        (double *)panel + at);
        break;
    case BO_UPPER_F64:
        bo_pack_f64(width, lines, job->depth, sign, (const double *)job->z + first, job->ldz, false,
                    (double *)panel + at);
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
    pack(job, left ? job->mr : job->nr, first, bo_smaller(step, job->n - first), left ? job->sign : 1,
         left ? job->panel_a : job->panel_b);
}

static void micro_tile(const update_job *job, size_t i, size_t j, size_t m, size_t n)
{
    double *c = job->c + i * job->ldc + j;
    size_t at_a = i * job->depth, at_b = j * job->depth;
    if (job->kind == BO_UPPER_F32) {
        job->kernels->gemm.f32_f64(job->depth, (const float *)job->panel_a + at_a, (const float *)job->panel_b + at_b,
                                   c, job->ldc, m, n);
    } else {
        job->kernels->gemm64.f64(job->depth, (const double *)job->panel_a + at_a, (const double *)job->panel_b + at_b,
                                 c, job->ldc, m, n);
    }
}

/* Tiles of rows that reach the upper triangle in the column of tiles that ends before `j1`. */
static size_t tiles_down(const update_job *job, size_t j1)
{
    return bo_ceil_div(bo_smaller(j1, job->n), job->tile_rows);
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
    size_t i0 = index * job->tile_rows, i1 = bo_smaller(i0 + job->tile_rows, job->n);
    size_t j1 = bo_smaller(j0 + job->tile_columns, job->n);
    for (size_t i = i0; i < i1; i += job->mr) {
        for (size_t j = j0; j < j1; j += job->nr) {
            size_t n = bo_smaller(job->nr, j1 - j);
            if (i < j + n) micro_tile(job, i, j, bo_smaller(job->mr, i1 - i), n);
        }
    }
}

void bo_upper_update(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, int sign, const void *z,
                     size_t ldz, double *c, size_t ldc, const bo_upper_panels *panels)
{
    if (n == 0 || depth == 0) return;
    update_job job = {.kernels = bo_context_kernels(context), .kind = kind, .n = n, .depth = depth, .sign = sign};
    job.z = z, job.ldz = ldz, job.c = c, job.ldc = ldc;
    job.panel_a = panels->a, job.panel_b = panels->b;
    tile_of(job.kernels, kind, &job.mr, &job.nr);
    job.tile_rows = bo_whole_slivers(BO_TILE_ROWS, job.mr);
    job.tile_columns = bo_whole_slivers(BO_TILE_COLUMNS, job.nr);
    bo_parallel(context, bo_ceil_div(n, job.tile_rows) + bo_ceil_div(n, job.tile_columns), pack_task, &job);
    bo_parallel(context, tile_count(&job), tile_task, &job);
}
