/* Correlation, one tile of pixels at a time. */
#include "correlation.h"
#include <string.h>
#include "../../device/cpu/kernels.h"
#include "../../math/panel.h"

enum {
    /* maximum number of products summed in registers; a panel of this depth fits into the second-level cache */
    DEPTH = BO_SIZE(512, 16),
    TILE_PLACES = BO_SIZE(256, 8),       /* enough work for a task */
    TILE_FLOATS = BO_SIZE(1 << 15, 256), /* floats per patch */
    MIN_WIDTH = BO_SIZE(12, 2),          /* minimum width of a tile, so that the kernels have enough work per call */
};

typedef struct tile_job {
    const bo_correlation *c;
    const bo_kernels *kernels;
    size_t tile[2], tiles[2];
    float *workspaces;
    size_t workspace_floats;
} tile_job;

/* Returns the pixels of x under `places` pixels of y. */
static size_t reach(const bo_correlation *c, size_t axis, size_t places)
{
    return c->taps[axis] && places ? (places - 1) * c->step[axis] + c->taps[axis] : 0;
}

static void choose_tile(const bo_correlation *c, size_t tile[2])
{
    size_t line = c->taps[0] * c->from.channels; /* floats of a column of the patch under one row of pixels */
    size_t width = bo_min(c->places[1], TILE_PLACES), height = 1;
    while (width > MIN_WIDTH && reach(c, 1, width) * line > TILE_FLOATS) width = (width + 1) / 2;
    while (height < c->places[0] && (height + 1) * width <= TILE_PLACES &&
           reach(c, 0, height + 1) * reach(c, 1, width) * c->from.channels <= TILE_FLOATS)
        height++;
    tile[0] = height, tile[1] = width;
}

/* Larger than for one tile, since the memory is also used for fewer pixels. */
size_t bo_correlation_workspace(const bo_correlation *c)
{
    size_t whole = bo_patch_floats(&c->from, (size_t[]){reach(c, 0, c->places[0]), reach(c, 1, c->places[1])});
    size_t min_floats = bo_patch_floats(&c->from, (size_t[]){c->taps[0], reach(c, 1, MIN_WIDTH)});
    return bo_min(whole, min_floats > TILE_FLOATS ? min_floats : TILE_FLOATS);
}

/* Sets the initial values of the sums of a row of pixels. */
static void begin_row(const bo_correlation *c, size_t places, float *y)
{
    for (size_t p = 0; c->bias && p < places; p++) memcpy(y + p * c->place, c->bias, c->columns * sizeof *y);
    for (size_t p = 0; !c->bias && !c->add && p < places; p++) memset(y + p * c->place, 0, c->columns * sizeof *y);
}

/* A part of the depth for some columns. */
typedef struct depth_part {
    size_t u, runs, p, k; /* kernel rows from u on; k elements of each from element p on */
    size_t column;
    bool add;
} depth_part;

static void add_part(const tile_job *job, const depth_part *part, const float *patch, size_t row,
                     const size_t places[2], float *y)
{
    const bo_correlation *c = job->c;
    size_t line = c->taps[1] * c->from.channels, n = bo_min(BO_PANEL, c->columns - part->column);
    const float *panel = c->panels + part->column * c->taps[0] * line + (part->u * line + part->p) * BO_PANEL;
    bo_runs runs = {part->runs, row, line * BO_PANEL};
    for (size_t i = 0; i < places[0]; i++)
        job->kernels->multiply_runs(places[1], n, runs, part->k, patch + (i * c->step[0] + part->u) * row + part->p,
                                    c->step[1] * c->from.channels, 1, panel, BO_PANEL, part->add,
                                    y + i * c->row + part->column, c->place);
}

static void add_parts(const tile_job *job, const float *patch, size_t row, const size_t places[2], float *y)
{
    const bo_correlation *c = job->c;
    size_t line = c->taps[1] * c->from.channels, k = bo_run_length(line, DEPTH);
    size_t runs = k < line ? 1 : bo_min(c->taps[0], DEPTH / (k < DEPTH ? k : DEPTH));
    bool begun = c->bias || c->add;
    for (size_t column = 0; column < c->columns; column += BO_PANEL)
        for (size_t u = 0; u < c->taps[0]; u += runs)
            for (size_t p = 0; p < line; p += k) {
                depth_part part = {u,      bo_min(runs, c->taps[0] - u), p, bo_min(k, line - p),
                                   column, begun || u > 0 || p > 0};
                add_part(job, &part, patch, row, places, y);
            }
}

/* Task: computes a tile of an image. */
static void tile_task(void *arg, size_t index, int worker)
{
    const tile_job *job = arg;
    const bo_correlation *c = job->c;
    size_t across = index % job->tiles[1], down = index / job->tiles[1] % job->tiles[0];
    size_t image = index / job->tiles[1] / job->tiles[0];
    size_t at[2] = {down * job->tile[0], across * job->tile[1]}, places[2], extent[2], row = 0;
    ptrdiff_t from[2];
    for (size_t i = 0; i < 2; i++) {
        places[i] = bo_min(job->tile[i], c->places[i] - at[i]);
        extent[i] = reach(c, i, places[i]);
        from[i] = (ptrdiff_t)(at[i] * c->step[i]) + c->first[i];
    }
    float *y = c->y + image * c->image + at[0] * c->row + at[1] * c->place;
    bool any = c->taps[0] && c->taps[1];
    for (size_t i = 0; (c->bias || !any) && i < places[0]; i++) begin_row(c, places[1], y + i * c->row);
    if (!any) return;
    const float *patch =
        bo_patch(&c->from, image, from, extent, job->workspaces + (size_t)worker * job->workspace_floats, &row);
    add_parts(job, patch, row, places, y);
}

void bo_correlate(bo_context *context, const bo_correlation *c, float *workspaces)
{
    tile_job job = {.c = c,
                    .kernels = bo_context_kernels(context),
                    .workspaces = workspaces,
                    .workspace_floats = bo_correlation_workspace(c)};
    if (!c->places[0] || !c->places[1]) return;
    choose_tile(c, job.tile);
    for (size_t i = 0; i < 2; i++) job.tiles[i] = bo_ceil_div(c->places[i], job.tile[i]);
    bo_parallel(context, c->from.images * job.tiles[0] * job.tiles[1], tile_task, &job);
}
