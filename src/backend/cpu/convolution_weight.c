/* The gradient of a convolution's weight: for each row of the kernel Σ over places of (patch under that row)ᵀ dy, a product
 * (kernel's width · channels) x out whose depth is the places of a tile, row by row: multiply_runs takes both as they lie. */
#include <string.h>
#include "convolution.h"
#include "../../kernels/kernels.h"
#include "../../math/panel.h"

enum {
    MOST_BLOCKS = 8,
    BLOCK_PLACES = 256,    /* a block is worth its sums */
    SUMS_FLOATS = 1 << 20, /* of all blocks; one is always there */
    TASK_LINES = 768,      /* most of the product's lines that a task sums */
    TILE_PLACES = 896,     /* most products summed in registers */
    LEAST_PLACES = 64,     /* of a tile, if its patch … */
    TILE_FLOATS = 1 << 16, /* … would be larger */
    END_LINES = 16,        /* lines of the sums that a task adds up */
};

size_t bo_weight_gradient_blocks(const bo_convolving *c, size_t rows)
{
    size_t room = SUMS_FLOATS / bo_weight_floats(c), useful = bo_ceil_div(rows, BLOCK_PLACES);
    size_t blocks = bo_smaller(bo_smaller(room, useful), MOST_BLOCKS);
    return blocks ? blocks : 1;
}

/* Most places of a tile. */
static size_t most_places(const bo_convolving *c)
{
    size_t most = TILE_FLOATS / c->in / 8 * 8;
    return most < LEAST_PLACES ? LEAST_PLACES : bo_smaller(most, TILE_PLACES);
}

static void choose_tile(const bo_convolving *c, size_t tile[2])
{
    size_t most = most_places(c);
    tile[1] = c->places[1] <= most ? c->places[1] : bo_run_length(c->places[1], most);
    tile[0] = bo_smaller(c->places[0], c->places[1] <= most ? most / c->places[1] : 1);
}

/* Places of x under a tile, of one row of the kernel. */
static void reach(const bo_convolving *c, const size_t places[2], size_t extent[2])
{
    extent[0] = (places[0] - 1) * c->windows.stride[0] + 1;
    extent[1] = (places[1] - 1) * c->windows.stride[1] + c->windows.kernel[1];
}

/* Not that of the tile: the room serves narrower images too. */
size_t bo_weight_gradient_room(const bo_convolving *c)
{
    size_t tile[2], extent[2];
    if (bo_is_depthwise(c) || !c->places[0] || !c->places[1]) return 0;
    choose_tile(c, tile);
    tile[1] = bo_smaller(c->places[1], most_places(c));
    reach(c, tile, extent);
    return bo_patch_floats(&(bo_images){.channels = c->in}, extent);
}

typedef struct weight_job {
    const bo_convolving *c;
    const bo_kernels *kernels;
    size_t tile[2], tiles[2];
    size_t panels, pieces; /* of the product's columns and lines */
    bool begun;            /* the sums are there already */
    float *sums, *rooms;
    size_t room;
} weight_job;

/* What a task sums: of row `row` of the kernel in a group some lines (width, channel) and the columns of a panel. */
typedef struct target {
    size_t group, row, line, lines, column, columns;
    float *sums, *room;
} target;

static void add_tile(const weight_job *job, const target *t, size_t index, bool add)
{
    const bo_convolving *c = job->c;
    const bo_windows *w = &c->windows;
    size_t at[2] = {index / job->tiles[1] % job->tiles[0] * job->tile[0], index % job->tiles[1] * job->tile[1]};
    size_t image = index / job->tiles[1] / job->tiles[0], places[2], extent[2], row;
    for (size_t i = 0; i < 2; i++) places[i] = bo_smaller(job->tile[i], c->places[i] - at[i]);
    reach(c, places, extent);
    bo_images from = {.x = c->x + t->group * c->in, .images = c->images, .channels = c->in};
    from.size[0] = w->size[0], from.size[1] = w->size[1], from.pitch = c->groups * c->in;
    ptrdiff_t first[2] = {(ptrdiff_t)(at[0] * w->stride[0] + t->row) - (ptrdiff_t)w->before[0],
                          (ptrdiff_t)(at[1] * w->stride[1]) - (ptrdiff_t)w->before[1]};
    const float *patch = bo_patch(&from, image, first, extent, t->room, &row);
    size_t pitch = c->groups * c->out, place = (image * c->places[0] + at[0]) * c->places[1] + at[1];
    const float *dy = c->dy + place * pitch + t->group * c->out + t->column;
    bo_runs runs = {places[0], w->stride[0] * row, c->places[1] * pitch};
    job->kernels->multiply_runs(t->lines, t->columns, runs, places[1], patch + t->line, 1, w->stride[1] * c->in, dy,
                                pitch, add, t->sums, c->out);
}

/* Task: a block of tiles for a target. */
static void add_task(void *arg, size_t index, int worker)
{
    const weight_job *job = arg;
    const bo_convolving *c = job->c;
    size_t tiles = c->images * job->tiles[0] * job->tiles[1], wide = c->windows.kernel[1] * c->in;
    size_t panel = index % job->panels, piece = index / job->panels % job->pieces;
    size_t rest = index / job->panels / job->pieces, block = rest / c->windows.kernel[0] / c->groups;
    target t = {.row = rest % c->windows.kernel[0], .group = rest / c->windows.kernel[0] % c->groups};
    t.line = piece * TASK_LINES, t.lines = bo_smaller(TASK_LINES, wide - t.line);
    t.column = panel * BO_PANEL, t.columns = bo_smaller(BO_PANEL, c->out - t.column);
    t.room = job->rooms + (size_t)worker * job->room;
    t.sums = job->sums + block * bo_weight_floats(c) + (t.group * c->taps * c->in + t.row * wide + t.line) * c->out +
             t.column;
    size_t first = block * tiles / c->blocks, end = (block + 1) * tiles / c->blocks;
    for (size_t i = first; i < end; i++) add_tile(job, &t, i, job->begun || i > first);
    if (first == end && !job->begun) /* nothing: zeros */
        job->kernels->multiply(t.lines, t.columns, 0, t.room, 1, 1, t.room, 0, false, t.sums, c->out);
}

void bo_weight_gradient_add(bo_context *context, const bo_convolving *c, bool begun, float *sums, float *rooms)
{
    weight_job job = {.c = c, .kernels = bo_context_kernels(context), .begun = begun, .sums = sums, .rooms = rooms};
    if (bo_is_depthwise(c)) {
        bo_depthwise_weight_gradient(context, c, begun, sums);
        return;
    }
    job.room = bo_weight_gradient_room(c);
    job.panels = bo_ceil_div(c->out, BO_PANEL);
    job.pieces = bo_ceil_div(c->windows.kernel[1] * c->in, TASK_LINES);
    if (c->places[0] && c->places[1]) choose_tile(c, job.tile);
    for (size_t i = 0; i < 2; i++) job.tiles[i] = job.tile[i] ? bo_ceil_div(c->places[i], job.tile[i]) : 0;
    bo_parallel(context, c->blocks * c->groups * c->windows.kernel[0] * job.pieces * job.panels, add_task, &job);
}

/* ---- the sum of the blocks ------------------------------------------------------------------------------------------ */

/* Of each of `groups` groups: lines of `columns` floats, whose transpose the gradient is. */
typedef struct end_job {
    size_t blocks, floats, lines, columns, tasks; /* tasks: of a group */
    const float *sums;
    double scale;
    bool add;
    float *dw;
} end_job;

/* Task: some lines of a group. */
static void end_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const end_job *job = arg;
    size_t group = index / job->tasks, line = index % job->tasks * END_LINES;
    size_t lines = bo_smaller(END_LINES, job->lines - line);
    for (size_t column = 0; column < job->columns; column += BO_PANEL) {
        double total[END_LINES][BO_PANEL] = {{0}};
        size_t count = bo_smaller(BO_PANEL, job->columns - column);
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
