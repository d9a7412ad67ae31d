/* Products of a symmetric kernel matrix K with a few vectors. Each block of the upper triangle is read from memory once
 * per product and used twice: B for the rows of its strip and Bᵀ for its columns. */
#include "../base/base.h"
#include "../base/sizes.h"
#include "../device/cpu/kernels.h"
#include "../features/kernel_block.h"
#include "../features/sections.h"
#include "strips.h"

#include <string.h>

enum { LINES = BO_SIZE(16, 2) }; /* rows of a block that stay in the first-level cache between both uses */

static size_t strip_count(const bo_strips *s)
{
    return bo_ceil_div(s->rows, BO_STRIP_ROWS);
}

static size_t numbers_of(size_t rows, size_t strip)
{
    size_t first = strip * BO_STRIP_ROWS;
    return bo_min(BO_STRIP_ROWS, rows - first) * (rows - first);
}

double bo_strips_bytes(double rows)
{
    return 2 * rows * (rows + BO_STRIP_ROWS);
}

void bo_strips_free(bo_strips *strips)
{
    bo_free(strips->store);
    bo_free(strips->again);
    bo_free(strips->direct);
    bo_free(strips->transposed);
    *strips = (bo_strips){0};
}

static bo_status fill_strip(const bo_strips *s, size_t strip, float *to)
{
    size_t first = strip * BO_STRIP_ROWS, columns = s->rows - first, dim = s->map->dim;
    const float *x = s->x + first * dim;
    return bo_kernel_block(s->context, s->map, bo_min(BO_STRIP_ROWS, columns), x, dim, columns, x, dim, to, columns);
}

static bo_status fill_store(bo_strips *s, double memory)
{
    size_t numbers = 0, strips = strip_count(s);
    while (s->kept < strips) {
        size_t more = numbers_of(s->rows, s->kept);
        if (sizeof(float) * ((double)numbers + (double)more) > memory) break;
        numbers += more, s->kept++;
    }
    s->store = bo_alloc_raw(s->context, numbers, sizeof(float), "the kernel matrix");
    if (s->kept < strips)
        s->again =
            bo_alloc_raw(s->context, numbers_of(s->rows, s->kept), sizeof(float), "a strip of the kernel matrix");
    if (!s->store || (s->kept < strips && !s->again)) return BO_MEMORY;
    float *to = s->store;
    for (size_t strip = 0; strip < s->kept; to += numbers_of(s->rows, strip++)) {
        BO_TRY(bo_progress(s->context, "computing the kernel matrix", (double)strip, (double)s->kept));
        BO_TRY(fill_strip(s, strip, to));
    }
    return BO_OK;
}

bo_status bo_strips_create(bo_context *context, const bo_features *phi, size_t outputs, double memory, bo_strips *out)
{
    const bo_features_desc *map = bo_features_describe(phi);
    *out = (bo_strips){
        .context = context, .map = map, .x = bo_sections_rows(phi), .rows = map->features, .outputs = outputs};
    size_t blocks = bo_ceil_div(out->rows, BO_STRIP_COLUMNS);
    out->direct =
        bo_alloc_raw(context, blocks * outputs * BO_STRIP_ROWS, sizeof(float), "a product of the kernel matrix");
    out->transposed =
        bo_alloc_raw(context, blocks * outputs * BO_STRIP_COLUMNS, sizeof(float), "a product of the kernel matrix");
    bo_status status = out->direct && out->transposed ? fill_store(out, memory) : BO_MEMORY;
    if (status != BO_OK) bo_strips_free(out);
    return status;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* A product with one strip, whose first row and column is number `first` of the matrix. */
typedef struct strip_job {
    const bo_strips *strips;
    const bo_kernels *kernels;
    const float *strip, *v;
    size_t first, rows, columns, count;
    double *out;
} strip_job;

/* One block: rows of the strip times v, and, right of the square on the diagonal, v times the columns. */
static void block_task(void *arg, size_t block, int worker)
{
    const strip_job *job = arg;
    const size_t n = job->strips->rows, from = block * BO_STRIP_COLUMNS, count = job->count;
    const size_t columns = bo_min(BO_STRIP_COLUMNS, job->columns - from);
    float *direct = job->strips->direct + block * count * BO_STRIP_ROWS;
    float *transposed = job->strips->transposed + block * count * BO_STRIP_COLUMNS;
    (void)worker;
    for (size_t i = 0; i < job->rows; i += LINES) {
        const size_t lines = bo_min(LINES, job->rows - i);
        const float *b = job->strip + i * job->columns + from, *v = job->v + job->first;
        job->kernels->dots(lines, count, columns, b, job->columns, v + from, n, direct + i, BO_STRIP_ROWS);
        if (from >= job->rows)
            job->kernels->multiply(count, columns, lines, v + i, n, 1, b, job->columns, i > 0, transposed,
                                   BO_STRIP_COLUMNS);
    }
}

/* Adds the products of all blocks of the strip to one row of the result, in their order. A block right of the diagonal
 * starts at or beyond column `rows`; the other blocks are in the square, whose width is a multiple of the block width
 * or the rest of the matrix. */
static void sum_task(void *arg, size_t output, int worker)
{
    const strip_job *job = arg;
    double *out = job->out + output * job->strips->rows + job->first;
    (void)worker;
    for (size_t block = 0, from = 0; from < job->columns; block++, from += BO_STRIP_COLUMNS) {
        const float *direct = job->strips->direct + (block * job->count + output) * BO_STRIP_ROWS;
        const float *transposed = job->strips->transposed + (block * job->count + output) * BO_STRIP_COLUMNS;
        for (size_t i = 0; i < job->rows; i++) out[i] += (double)direct[i];
        for (size_t j = from; from >= job->rows && j < bo_min(from + BO_STRIP_COLUMNS, job->columns); j++)
            out[j] += (double)transposed[j - from];
    }
}

bo_status bo_strips_multiply(bo_strips *strips, size_t count, const float *v, double *out, int step)
{
    const size_t n = strips->rows;
    const float *next = strips->store;
    memset(out, 0, count * n * sizeof *out);
    for (size_t strip = 0; strip < strip_count(strips); strip++) {
        strip_job job = {.strips = strips,
                         .kernels = bo_context_kernels(strips->context),
                         .strip = next,
                         .v = v,
                         .first = strip * BO_STRIP_ROWS,
                         .count = count,
                         .out = out};
        job.columns = n - job.first;
        job.rows = bo_min(BO_STRIP_ROWS, job.columns);
        BO_TRY(bo_progress(strips->context, "solving", step, 0));
        if (strip < strips->kept)
            next += numbers_of(n, strip);
        else
            BO_TRY(fill_strip(strips, strip, strips->again));
        if (strip >= strips->kept) job.strip = strips->again;
        bo_parallel(strips->context, bo_ceil_div(job.columns, BO_STRIP_COLUMNS), block_task, &job);
        bo_parallel(strips->context, count, sum_task, &job);
    }
    return BO_OK;
}
