/* k(x_i, y_j) and gradients of kernel expansions in float32: distances of tiles of pairs by the compute kernels, then
 * the kernel as a function of the distance, in place. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "enums.h"
#include "internal.h"
#include "../base/sizes.h"
#include "kernel_block.h"

/* Tiles of the matrix are square, so that they can be mirrored. A tile fits in the second-level cache, a strip of its
 * rows in the first; memory is written in runs of a kilobyte. GRADIENT_BYTES limits the sums of a task of gradients. */
enum { TILE = BO_SIZE(4, 1) * BO_PAIR_ROWS, STRIP = BO_SIZE(16, 4), FALLBACK_BYTES = BO_SIZE(4 << 20, 256) };
enum { GRADIENT_ROWS = BO_SIZE(16, 2), GRADIENT_BYTES = BO_SIZE(1 << 18, 1 << 10) };

/* A shift-invariant kernel as a function of a distance. */
typedef struct metric {
    bo_distance distance;
    bo_radial radial;
    float *weight; /* dim, or NULL: all 1 */
} metric;

typedef struct block_job {
    const bo_kernels *kernels;
    metric metric;
    size_t dim, rows, columns, ldx, ldy;
    const float *x, *y;
    float *panels; /* of y: bo_ceil_div(columns, BO_PAIR_ROWS) x dim x BO_PAIR_ROWS */
    bool mirrored; /* x is y */
    float *tiles;  /* per worker: a strip and a tile */
    float *k;
    size_t ldk;
    /* gradients */
    size_t outputs, task_rows;
    const float *alpha;
    float *shares;   /* alpha per panel: panels x outputs x BO_PAIR_ROWS, padded with zeros */
    float *sums;     /* per worker: task_rows x outputs x dim x BO_PAIR_LANES */
    float *gradient; /* rows x outputs x dim */
} block_job;

static bool is_normal(double x)
{
    return x >= (double)FLT_MIN && x <= (double)FLT_MAX;
}

/* ---- kernels as functions of distances --------------------------------------------------------------------------- */

/* closed_forms.c has the formulas. */
bo_radial bo_kernel_radial(const bo_features_desc *desc)
{
    double gamma = desc->gamma;
    switch (desc->kernel) {
    case BO_KERNEL_MATERN12:
        return (bo_radial){.form = BO_RADIAL_ROOT, .scale = (float)gamma};
    case BO_KERNEL_MATERN32:
        return (bo_radial){.form = BO_RADIAL_MATERN32, .scale = (float)(sqrt(3) * gamma)};
    case BO_KERNEL_MATERN52:
        return (bo_radial){.form = BO_RADIAL_MATERN52, .scale = (float)(sqrt(5) * gamma)};
    case BO_KERNEL_RATIONAL_QUADRATIC:
        return (bo_radial){
            .form = BO_RADIAL_RATIONAL, .scale = (float)(gamma / desc->alpha), .power = (float)desc->alpha};
    case BO_KERNEL_CAUCHY:
        return (bo_radial){.form = BO_RADIAL_RECIPROCAL, .scale = 1};
    default:
        return (bo_radial){.form = BO_RADIAL_EXP, .scale = (float)gamma};
    }
}

bo_distance bo_form_distance(bo_form form)
{
    return form == BO_FORM_L1        ? BO_DISTANCE_ABSOLUTES
           : form == BO_FORM_PRODUCT ? BO_DISTANCE_PRODUCT
                                     : BO_DISTANCE_SQUARES;
}

/* Returns the weight of a coordinate with this factor (bo_input_factors). */
static double weight_of(const bo_features_desc *desc, bo_distance distance, double factor)
{
    if (distance == BO_DISTANCE_ABSOLUTES) return factor;
    return factor * factor * (distance == BO_DISTANCE_PRODUCT ? desc->gamma * desc->gamma : 1);
}

/* Sets *fits to false if a constant is out of the range of float. */
static bo_status make_metric(bo_context *context, const bo_features_desc *desc, metric *out, bool *fits)
{
    const bo_kernel_definition *kernel = bo_kernel_find(desc->kernel);
    *out = (metric){.distance = bo_form_distance(kernel->form), .radial = bo_kernel_radial(desc)};
    *fits = is_normal((double)out->radial.scale) &&
            (out->radial.form != BO_RADIAL_RATIONAL || is_normal((double)out->radial.power));
    if (!desc->length_scales && out->distance != BO_DISTANCE_PRODUCT) return BO_OK;
    double *factor = bo_alloc_raw(context, desc->dim, sizeof *factor, "a kernel matrix");
    out->weight = bo_alloc_raw(context, desc->dim, sizeof *out->weight, "a kernel matrix");
    if (factor && out->weight) {
        bo_input_factors(desc, factor);
        for (size_t p = 0; p < desc->dim; p++) {
            double weight = weight_of(desc, out->distance, factor[p]);
            *fits = *fits && is_normal(weight);
            out->weight[p] = (float)weight;
        }
    }
    bool made = factor && out->weight;
    bo_free(factor);
    return made ? BO_OK : BO_MEMORY;
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */

static size_t panel_rows(const block_job *job, size_t panel)
{
    return bo_min(BO_PAIR_ROWS, job->columns - panel * BO_PAIR_ROWS);
}

static void panel_task(void *arg, size_t panel, int worker)
{
    const block_job *job = arg;
    float *to = job->panels + panel * job->dim * BO_PAIR_ROWS;
    size_t count = panel_rows(job, panel);
    (void)worker;
    if (count < BO_PAIR_ROWS) memset(to, 0, job->dim * BO_PAIR_ROWS * sizeof *to);
    job->kernels->transpose(count, job->dim, job->y + panel * BO_PAIR_ROWS * job->ldy, job->ldy, to, BO_PAIR_ROWS);
}

static bo_status make_panels(bo_context *context, block_job *job)
{
    size_t count = bo_ceil_div(job->columns, BO_PAIR_ROWS);
    job->panels =
        bo_alloc_raw(context, count * BO_PAIR_ROWS, job->dim * sizeof *job->panels, "tiles of a kernel matrix");
    if (!job->panels) return BO_MEMORY;
    bo_parallel(context, count, panel_task, job);
    return BO_OK;
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* Writes `rows` rows of a strip to the matrix. */
static void write_strip(const block_job *job, size_t row, size_t column, size_t rows, size_t columns,
                        const float *strip)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(job->k + (row + i) * job->ldk + column, strip + i * TILE, columns * sizeof *strip);
}

/* Computes `rows` rows of a tile. */
static void fill_strip(const block_job *job, size_t row, size_t column, size_t rows, size_t columns, float *strip)
{
    const float *x = job->x + row * job->ldx;
    for (size_t j = 0; j < columns; j += BO_PAIR_ROWS)
        job->kernels->distances(job->metric.distance, rows, BO_PAIR_ROWS, job->dim, x, job->ldx, job->metric.weight,
                                job->panels + (column + j) * job->dim, strip + j, TILE);
    job->kernels->radial(&job->metric.radial, (rows - 1) * TILE + columns, strip, strip);
}

static void tile_task(void *arg, size_t index, int worker)
{
    const block_job *job = arg;
    size_t across = bo_ceil_div(job->columns, TILE), row = index / across * TILE, column = index % across * TILE;
    if (job->mirrored && column < row) return;
    size_t rows = bo_min(TILE, job->rows - row), columns = bo_min(TILE, job->columns - column);
    bool mirror = job->mirrored && column > row;
    float *turned = job->tiles + (size_t)worker * (TILE + STRIP) * TILE, *tile = turned + STRIP * TILE;
    for (size_t i = 0; i < rows; i += STRIP) {
        float *strip = mirror ? tile + i * TILE : tile;
        fill_strip(job, row + i, column, bo_min(STRIP, rows - i), columns, strip);
        write_strip(job, row + i, column, bo_min(STRIP, rows - i), columns, strip);
    }
    for (size_t j = 0; mirror && j < columns; j += STRIP) {
        size_t count = bo_min(STRIP, columns - j);
        job->kernels->transpose(rows, count, tile + j, TILE, turned, TILE);
        write_strip(job, column + j, row, count, rows, turned);
    }
}

/* Computes a few rows at a time in float64 and rounds them. */
static bo_status fallback(bo_context *context, const bo_features_desc *desc, const block_job *job)
{
    size_t block_rows = bo_max(1, FALLBACK_BYTES / sizeof(double) / job->columns), step = bo_min(block_rows, job->rows);
    double *wide = bo_alloc_raw(context, step * job->columns, sizeof *wide, "a kernel matrix");
    bo_status status = wide ? BO_OK : BO_MEMORY;
    for (size_t row = 0; status == BO_OK && row < job->rows; row += step) {
        size_t rows = bo_min(step, job->rows - row);
        status = bo_kernel_matrix(context, desc, rows, job->x + row * job->ldx, job->ldx, job->columns, job->y,
                                  job->ldy, wide, job->columns);
        for (size_t i = 0; status == BO_OK && i < rows; i++)
            for (size_t j = 0; j < job->columns; j++)
                job->k[(row + i) * job->ldk + j] = (float)wide[i * job->columns + j];
    }
    bo_free(wide);
    return status;
}

static bo_status fill_block(bo_context *context, const bo_features_desc *desc, block_job *job)
{
    bool fits = bo_kernel_find(desc->kernel)->shift_invariant;
    if (fits) BO_TRY(make_metric(context, desc, &job->metric, &fits));
    if (!fits) return fallback(context, desc, job);
    BO_TRY(make_panels(context, job));
    size_t threads = (size_t)bo_context_threads(context);
    job->tiles = bo_alloc(context, threads * (TILE + STRIP), TILE * sizeof *job->tiles, "tiles of a kernel matrix");
    if (!job->tiles) return BO_MEMORY;
    bo_parallel(context, bo_ceil_div(job->rows, TILE) * bo_ceil_div(job->columns, TILE), tile_task, job);
    return BO_OK;
}

bo_status bo_kernel_block(bo_context *context, const bo_features_desc *map, size_t rows, const float *x, size_t ldx,
                          size_t columns, const float *y, size_t ldy, float *k, size_t ldk)
{
    BO_REQUIRE(context, map);
    BO_REQUIRE_IF(context, rows > 0 && columns > 0, x, y, k);
    bo_features_desc desc;
    BO_TRY(bo_kernel_resolve(context, map, &desc));
    if (rows == 0 || columns == 0) return BO_OK;
    if (ldx < desc.dim || ldy < desc.dim || ldk < columns)
        return bo_fail(
            context, BO_INVALID,
            "kernel block: ldx, ldy and ldk are %zu, %zu and %zu; expected at least dim = %zu for ldx and ldy "
            "and columns = %zu for ldk",
            ldx, ldy, ldk, desc.dim, columns);
    block_job job = {.kernels = bo_context_kernels(context),
                     .dim = desc.dim,
                     .rows = rows,
                     .columns = columns,
                     .ldx = ldx,
                     .ldy = ldy,
                     .x = x,
                     .y = y,
                     .mirrored = x == y && ldx == ldy && rows == columns,
                     .k = k,
                     .ldk = ldk};
    bo_status status = fill_block(context, &desc, &job);
    bo_free(job.metric.weight);
    bo_free(job.panels);
    bo_free(job.tiles);
    return status;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Adds the terms of one panel to the sums of `rows` rows that start at row `first`. */
static void add_panel(const block_job *job, size_t panel, size_t first, size_t rows, float *sums)
{
    float slope[GRADIENT_ROWS * BO_PAIR_ROWS], factor[BO_PAIR_ROWS];
    const float *y = job->panels + panel * job->dim * BO_PAIR_ROWS, *x = job->x + first * job->ldx;
    job->kernels->distances(job->metric.distance, rows, BO_PAIR_ROWS, job->dim, x, job->ldx, job->metric.weight, y,
                            slope, BO_PAIR_ROWS);
    job->kernels->radial_derivative(&job->metric.radial, rows * BO_PAIR_ROWS, slope, slope);
    for (size_t i = 0; i < rows; i++)
        for (size_t o = 0; o < job->outputs; o++, sums += job->dim * BO_PAIR_LANES) {
            job->kernels->product(BO_PAIR_ROWS, slope + i * BO_PAIR_ROWS,
                                  job->shares + (panel * job->outputs + o) * BO_PAIR_ROWS, false, factor);
            job->kernels->pair_sums(job->metric.distance, job->dim, x + i * job->ldx, job->metric.weight, y, factor,
                                    sums);
        }
}

/* Returns the factor of the sums that pair_sums omits. */
static double direction_factor(const metric *m, size_t p)
{
    double weight = m->weight ? (double)m->weight[p] : 1;
    return m->distance == BO_DISTANCE_ABSOLUTES ? weight : 2 * weight;
}

static void gradient_task(void *arg, size_t index, int worker)
{
    const block_job *job = arg;
    size_t first = index * job->task_rows, rows = bo_min(job->task_rows, job->rows - first);
    size_t vectors = rows * job->outputs, max_sums = job->task_rows * job->outputs * job->dim * BO_PAIR_LANES;
    float *sums = job->sums + (size_t)worker * max_sums, *gradient = job->gradient + first * job->outputs * job->dim;
    memset(sums, 0, vectors * job->dim * BO_PAIR_LANES * sizeof *sums);
    for (size_t panel = 0; panel * BO_PAIR_ROWS < job->columns; panel++) add_panel(job, panel, first, rows, sums);
    for (size_t i = 0; i < vectors; i++)
        for (size_t p = 0; p < job->dim; p++, sums += BO_PAIR_LANES) {
            double sum = 0;
            for (size_t l = 0; l < BO_PAIR_LANES; l++) sum += (double)sums[l];
            *gradient++ = (float)(direction_factor(&job->metric, p) * sum);
        }
}

/* Copies the coefficients of each panel, padded with zeros. */
static bo_status make_shares(bo_context *context, block_job *job)
{
    size_t count = bo_ceil_div(job->columns, BO_PAIR_ROWS);
    job->shares = bo_alloc(context, count * BO_PAIR_ROWS, job->outputs * sizeof *job->shares, "gradients of a kernel");
    if (!job->shares) return BO_MEMORY;
    for (size_t panel = 0; panel < count; panel++)
        job->kernels->transpose(panel_rows(job, panel), job->outputs, job->alpha + panel * BO_PAIR_ROWS * job->outputs,
                                job->outputs, job->shares + panel * job->outputs * BO_PAIR_ROWS, BO_PAIR_ROWS);
    return BO_OK;
}

static bo_status fill_gradient(bo_context *context, const bo_features_desc *desc, block_job *job)
{
    bool fits;
    BO_TRY(make_metric(context, desc, &job->metric, &fits));
    if (!fits)
        return bo_fail(context, BO_UNSUPPORTED,
                       "gradient of kernel %s: gamma = %g and the length scales give constants outside the range of "
                       "float; scale the inputs",
                       bo_kernel_name(desc->kernel), desc->gamma);
    BO_TRY(make_panels(context, job));
    BO_TRY(make_shares(context, job));
    size_t row = job->outputs * job->dim * BO_PAIR_LANES * sizeof(float);
    job->task_rows = bo_max(1, bo_min(GRADIENT_ROWS, GRADIENT_BYTES / row));
    job->sums =
        bo_alloc_raw(context, (size_t)bo_context_threads(context) * job->task_rows, row, "gradients of a kernel");
    if (!job->sums) return BO_MEMORY;
    bo_parallel(context, bo_ceil_div(job->rows, job->task_rows), gradient_task, job);
    return BO_OK;
}

bo_status bo_kernel_gradient(bo_context *context, const bo_features_desc *map, size_t rows, const float *x, size_t ldx,
                             size_t columns, const float *y, size_t ldy, size_t outputs, const float *alpha,
                             float *gradient)
{
    BO_REQUIRE(context, map);
    BO_REQUIRE_IF(context, rows > 0 && outputs > 0, x, gradient);
    BO_REQUIRE_IF(context, columns > 0 && outputs > 0, y, alpha);
    bo_features_desc desc;
    BO_TRY(bo_kernel_resolve(context, map, &desc));
    if (!bo_kernel_find(desc.kernel)->shift_invariant)
        return bo_fail(context, BO_UNSUPPORTED, "gradient of kernel %s: only kernels of x - y have one here",
                       bo_kernel_name(desc.kernel));
    if (ldx < desc.dim || ldy < desc.dim)
        return bo_fail(context, BO_INVALID, "kernel gradient: ldx and ldy are %zu and %zu; expected at least dim = %zu",
                       ldx, ldy, desc.dim);
    if (rows == 0 || outputs == 0) return BO_OK;
    if (columns == 0) memset(gradient, 0, rows * outputs * desc.dim * sizeof *gradient);
    if (columns == 0) return BO_OK;
    block_job job = {.kernels = bo_context_kernels(context),
                     .dim = desc.dim,
                     .rows = rows,
                     .columns = columns,
                     .ldx = ldx,
                     .ldy = ldy,
                     .x = x,
                     .y = y,
                     .outputs = outputs,
                     .alpha = alpha,
                     .gradient = gradient};
    bo_status status = fill_gradient(context, &desc, &job);
    bo_free(job.metric.weight);
    bo_free(job.panels);
    bo_free(job.shares);
    bo_free(job.sums);
    return status;
}
