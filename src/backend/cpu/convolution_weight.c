/* The gradient of a convolution's weight: for each row of the kernel, Σ over pixels of (patch under that row)ᵀ dy, a
 * product (kernel width · channels) x out whose depth is the pixels of a tile, row by row. multiply_runs takes both
 * without copying. */
#include <string.h>
#include "convolution.h"
#include "../../device/cpu/kernels.h"
#include "../../math/panel.h"

enum {
    MAX_BLOCKS = 8,
    BLOCK_PLACES = BO_SIZE(256, 8),      /* minimum pixels per block, compared with the cost of its sums */
    SUMS_FLOATS = BO_SIZE(1 << 21, 256), /* floats of the sums of all blocks; at least one block is used */
    TASK_LINES = BO_SIZE(1536, 8),       /* maximum lines of the product per task */
    TILE_PLACES = BO_SIZE(448, 16),      /* maximum number of products summed in registers */
    MIN_PLACES = BO_SIZE(64, 8),         /* pixels per tile if its patch … */
    TILE_FLOATS = BO_SIZE(1 << 16, 256), /* … exceeds this many floats */
    END_LINES = BO_SIZE(16, 2),          /* lines of the sums per task */
};

size_t bo_weight_gradient_blocks(const bo_convolving *c, size_t rows)
{
    size_t fit = SUMS_FLOATS / bo_weight_floats(c), useful = bo_ceil_div(rows, BLOCK_PLACES);
    size_t blocks = bo_min(bo_min(fit, useful), MAX_BLOCKS);
    return blocks ? blocks : 1;
}

/* Returns the maximum number of pixels per tile. */
static size_t max_places(const bo_convolving *c)
{
    size_t limit = TILE_FLOATS / c->in / 8 * 8;
    return limit < MIN_PLACES ? MIN_PLACES : bo_min(limit, TILE_PLACES);
}

/* The pixels of y that are summed in registers: a part of an image, or all of several small images. */
typedef struct tiling {
    size_t images, size[2];
    size_t extent[2], floats; /* pixels of x under it per image, for one row of the kernel; floats for all its images */
} tiling;

static void reach(const bo_convolving *c, const size_t places[2], size_t extent[2])
{
    extent[0] = (places[0] - 1) * c->windows.stride[0] + 1;
    extent[1] = (places[1] - 1) * c->windows.stride[1] + c->windows.kernel[1];
}

/* Returns the floats between consecutive images of a tile in workspace: a multiple of the stride, so that rows are
 * evenly spaced across images. */
static size_t image_floats(const bo_convolving *c, const tiling *t)
{
    return t->size[0] * c->windows.stride[0] * t->extent[1] * c->in;
}

static tiling tiling_of(const bo_convolving *c)
{
    size_t limit = max_places(c), places = c->places[0] * c->places[1];
    tiling t = {.images = 1};
    if (!places) return t;
    t.size[1] = c->places[1] <= limit ? c->places[1] : bo_run_length(c->places[1], limit);
    t.size[0] = bo_min(c->places[0], c->places[1] <= limit ? limit / c->places[1] : 1);
    reach(c, t.size, t.extent);
    if (places <= limit) t.images = bo_min(c->images, bo_min(limit / places, TILE_FLOATS / image_floats(c, &t)));
    if (!t.images) t.images = 1;
    t.floats = t.images > 1 ? t.images * image_floats(c, &t) : t.extent[0] * t.extent[1] * c->in;
    return t;
}

/* Returns the floats of the workspace for x; that for dy follows. */
static size_t patch_floats(const bo_convolving *c)
{
    tiling t = tiling_of(c);
    size_t widest =
        ((max_places(c) - 1) * c->windows.stride[1] + c->windows.kernel[1]) * c->in; /* also for shorter rows */
    return bo_round_up(t.size[0] == 1 && t.floats < widest ? widest : t.floats, 16);
}

size_t bo_weight_gradient_workspace(const bo_convolving *c)
{
    return bo_is_depthwise(c) ? 0 : patch_floats(c) + max_places(c) * BO_PANEL;
}

typedef struct weight_job {
    const bo_convolving *c;
    const bo_kernels *kernels;
    tiling tile;
    size_t tiles[3]; /* number of tiles: images, vertical, horizontal */
    size_t pieces;   /* number of pieces of the product's lines */
    bool begun;      /* the sums already exist */
    float *sums, *workspaces;
    size_t workspace_floats;
} weight_job;

/* The part of the gradient that a task sums: some lines (width, channel) of row `row` of the kernel in a group. */
typedef struct weight_target {
    size_t group, row, line, lines;
    float *sums, *workspace;
} weight_target;

/* A tile: its first image and pixel, and its size, which is smaller at the edges of images. */
typedef struct tile {
    size_t image, images, at[2], places[2];
} tile;

static tile tile_at(const weight_job *job, size_t index)
{
    const bo_convolving *c = job->c;
    tile t = {.image = index / job->tiles[2] / job->tiles[1] * job->tile.images};
    t.images = bo_min(job->tile.images, c->images - t.image);
    t.at[0] = index / job->tiles[2] % job->tiles[1] * job->tile.size[0];
    t.at[1] = index % job->tiles[2] * job->tile.size[1];
    for (size_t i = 0; i < 2; i++) t.places[i] = bo_min(job->tile.size[i], c->places[i] - t.at[i]);
    return t;
}

/* Returns x under row `target->row` of the kernel; *row: floats between its rows. */
static const float *patch_of(const weight_job *job, const weight_target *target, const tile *t, size_t *row)
{
    const bo_convolving *c = job->c;
    const bo_grid *w = &c->windows;
    size_t extent[2];
    bo_images from = {.x = c->x + target->group * c->in, .images = c->images, .channels = c->in};
    from.size[0] = w->size[0], from.size[1] = w->size[1], from.pitch = c->groups * c->in;
    ptrdiff_t first[2] = {(ptrdiff_t)(t->at[0] * w->stride[0] + target->row) - (ptrdiff_t)w->before[0],
                          (ptrdiff_t)(t->at[1] * w->stride[1]) - (ptrdiff_t)w->before[1]};
    reach(c, t->places, extent);
    if (t->images == 1) return bo_patch(&from, t->image, first, extent, target->workspace, row);
    for (size_t i = 0; i < t->images; i++)
        bo_patch_copy(&from, t->image + i, first, extent, target->workspace + i * image_floats(c, &job->tile));
    *row = extent[1] * c->in;
    return target->workspace;
}

/* Returns `columns` columns of dy, copied to contiguous memory if the rows of dy are long: *pitch between pixels, *row
 * between rows. */
static const float *dy_of(const weight_job *job, const tile *t, size_t column, size_t columns, float *workspace,
                          size_t *pitch, size_t *row)
{
    const bo_convolving *c = job->c;
    size_t all = c->groups * c->out, place = (t->image * c->places[0] + t->at[0]) * c->places[1] + t->at[1];
    const float *dy = c->dy + place * all + column;
    *pitch = all, *row = c->places[1] * all;
    if (all <= 2 * BO_PANEL) return dy;
    float *to = workspace;
    for (size_t r = 0; r < t->images * t->places[0]; r++)
        for (size_t i = 0; i < t->places[1]; i++, to += BO_PANEL)
            memcpy(to, dy + r * *row + i * all, columns * sizeof *to);
    *pitch = BO_PANEL, *row = t->places[1] * BO_PANEL;
    return workspace;
}

static void add_tile(const weight_job *job, const weight_target *target, size_t index, bool add)
{
    const bo_convolving *c = job->c;
    tile t = tile_at(job, index);
    size_t row, pitch, dy_row;
    const float *patch = patch_of(job, target, &t, &row);
    for (size_t first = 0; first < c->out; first += BO_PANEL) {
        size_t columns = bo_min(BO_PANEL, c->out - first);
        const float *dy = dy_of(job, &t, target->group * c->out + first, columns, target->workspace + patch_floats(c),
                                &pitch, &dy_row);
        bo_runs runs = {t.images * t.places[0], c->windows.stride[0] * row, dy_row};
        job->kernels->multiply_runs(target->lines, columns, runs, t.places[1], patch + target->line, 1,
                                    c->windows.stride[1] * c->in, dy, pitch, add, target->sums + first, c->out);
    }
}

/* Task: sums a block of tiles for a target. */
static void add_task(void *arg, size_t index, int worker)
{
    const weight_job *job = arg;
    const bo_convolving *c = job->c;
    size_t tiles = job->tiles[0] * job->tiles[1] * job->tiles[2], wide = c->windows.kernel[1] * c->in;
    size_t piece = index % job->pieces, rest = index / job->pieces, block = rest / c->windows.kernel[0] / c->groups;
    weight_target t = {.row = rest % c->windows.kernel[0], .group = rest / c->windows.kernel[0] % c->groups};
    t.line = piece * TASK_LINES, t.lines = bo_min(TASK_LINES, wide - t.line);
    t.workspace = job->workspaces + (size_t)worker * job->workspace_floats;
    t.sums = job->sums + block * bo_weight_floats(c) + (t.group * c->taps * c->in + t.row * wide + t.line) * c->out;
    size_t first = block * tiles / c->blocks, end = (block + 1) * tiles / c->blocks;
    for (size_t i = first; i < end; i++) add_tile(job, &t, i, job->begun || i > first);
    if (first == end && !job->begun) memset(t.sums, 0, t.lines * c->out * sizeof *t.sums);
}

void bo_weight_gradient_add(bo_context *context, const bo_convolving *c, bool begun, float *sums, float *workspaces)
{
    weight_job job = {
        .c = c, .kernels = bo_context_kernels(context), .begun = begun, .sums = sums, .workspaces = workspaces};
    if (bo_is_depthwise(c)) {
        bo_depthwise_weight_gradient(context, c, begun, sums);
        return;
    }
    job.tile = tiling_of(c);
    job.workspace_floats = bo_weight_gradient_workspace(c);
    job.pieces = bo_ceil_div(c->windows.kernel[1] * c->in, TASK_LINES);
    job.tiles[0] = bo_ceil_div(c->images, job.tile.images);
    for (size_t i = 0; i < 2; i++)
        job.tiles[1 + i] = job.tile.size[i] ? bo_ceil_div(c->places[i], job.tile.size[i]) : 0;
    bo_parallel(context, c->blocks * c->groups * c->windows.kernel[0] * job.pieces, add_task, &job);
}

/* ---- sum of the blocks ------------------------------------------------------------------------------------------- */

/* For each of `groups` groups: lines of `columns` floats; their transpose is the gradient. */
typedef struct end_job {
    size_t blocks, floats, lines, columns, tasks; /* tasks: per group */
    const float *sums;
    double scale;
    bool add;
    float *dw;
} end_job;

/* Task: adds some lines of a group. */
static void end_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const end_job *job = arg;
    size_t group = index / job->tasks, line = index % job->tasks * END_LINES;
    size_t lines = bo_min(END_LINES, job->lines - line);
    for (size_t column = 0; column < job->columns; column += BO_PANEL) {
        double total[END_LINES][BO_PANEL] = {{0}};
        size_t count = bo_min(BO_PANEL, job->columns - column);
        const float *sums = job->sums + (group * job->lines + line) * job->columns + column;
        for (size_t b = 0; b < job->blocks; b++)
            for (size_t i = 0; i < lines; i++)
                for (size_t j = 0; j < count; j++) total[i][j] += (double)sums[b * job->floats + i * job->columns + j];
        for (size_t j = 0; j < count; j++) {
            float *dw = job->dw + (group * job->columns + column + j) * job->lines + line;
            for (size_t i = 0; i < lines; i++) dw[i] = (float)(job->scale * total[i][j]) + (job->add ? dw[i] : 0);
        }
    }
}

void bo_weight_gradient_end(bo_context *context, const bo_convolving *c, const float *sums, bool add, float *dw)
{
    bool depthwise = bo_is_depthwise(c);
    end_job job = {.blocks = c->blocks, .floats = bo_weight_floats(c), .sums = sums, .add = add, .dw = dw};
    job.scale = (double)c->scale;
    job.lines = depthwise ? c->taps : c->taps * c->in;
    job.columns = depthwise ? c->groups : c->out;
    job.tasks = bo_ceil_div(job.lines, END_LINES);
    bo_parallel(context, (depthwise ? 1 : c->groups) * job.tasks, end_task, &job);
}
