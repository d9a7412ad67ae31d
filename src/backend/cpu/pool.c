/* Pooling: the maximum of every window, or the mean of its pixels within the image, per channel. If several elements
 * are equal to the maximum, the first one gets the gradient; forward saves its pixel. NaN counts as larger than any
 * number. */
#include <string.h>
#include "blocks.h"
#include "cpu.h"
#include "../shapes.h"

/* A call. */
typedef struct pooling {
    bo_grid windows;
    bo_pool_kind kind;
    size_t images, places[2], channels;
    int32_t *chosen; /* saved: pixel of each element of y in its image; NULL: not needed */
} pooling;

static pooling pooling_of(const bo_op_call *call)
{
    const bo_pool_attributes *a = call->attributes;
    pooling p = {.windows = bo_grid_of(&a->windows), .kind = a->kind, .channels = call->in[0].columns};
    p.images = call->in[0].rows / (p.windows.size[0] * p.windows.size[1]);
    for (size_t i = 0; i < 2; i++) p.places[i] = bo_grid_count(&p.windows, i);
    p.chosen = call->saved;
    return p;
}

/* The pixels of a window within the image: from first to end - 1 along each axis. */
typedef struct window {
    size_t first[2], end[2];
} window;

static window window_at(const pooling *p, size_t y, size_t x)
{
    window w;
    for (size_t i = 0; i < 2; i++) {
        size_t at = (i ? x : y) * p->windows.stride[i], before = p->windows.before[i];
        size_t end = at + p->windows.kernel[i] - before; /* greater than 0: checked by the shape function */
        w.first[i] = at > before ? at - before : 0;
        w.end[i] = end < p->windows.size[i] ? end : p->windows.size[i];
    }
    return w;
}

static size_t places_in(const window *w)
{
    return (w->end[0] - w->first[0]) * (w->end[1] - w->first[1]);
}

/* Returns pixel number `i` of a window as a pixel of the image. */
static size_t place_in(const pooling *p, const window *w, size_t i)
{
    size_t width = w->end[1] - w->first[1];
    return (w->first[0] + i / width) * p->windows.size[1] + w->first[1] + i % width;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void window_mean(const pooling *p, const window *w, const float *x, float *y)
{
    size_t n = p->channels, places = places_in(w);
    float share = 1.0f / (float)places;
    memset(y, 0, n * sizeof *y);
    for (size_t i = 0; i < places; i++) {
        const float *row = x + place_in(p, w, i) * n;
        for (size_t j = 0; j < n; j++) y[j] += row[j];
    }
    for (size_t j = 0; j < n; j++) y[j] *= share;
}

static inline bool exceeds(float x, float y)
{
    return (x > y) | (x != x); /* without a branch, so that compilers vectorize it */
}

static void keep_larger(size_t n, const float *restrict row, float *restrict y)
{
    for (size_t j = 0; j < n; j++) y[j] = exceeds(row[j], y[j]) ? row[j] : y[j];
}

/* A separate loop: compilers generate branches for two selections in one loop. */
static void note_larger(size_t n, const float *restrict row, const float *restrict y, int32_t place,
                        int32_t *restrict chosen)
{
    for (size_t j = 0; j < n; j++) chosen[j] = exceeds(row[j], y[j]) ? place : chosen[j];
}

/* chosen NULL: not needed. */
static void window_max(const pooling *p, const window *w, const float *x, float *y, int32_t *chosen)
{
    size_t n = p->channels, first = place_in(p, w, 0);
    memcpy(y, x + first * n, n * sizeof *y);
    for (size_t j = 0; chosen && j < n; j++) chosen[j] = (int32_t)first;
    for (size_t i = 1; i < places_in(w); i++) {
        size_t place = place_in(p, w, i);
        if (chosen) note_larger(n, x + place * n, y, (int32_t)place, chosen);
        keep_larger(n, x + place * n, y);
    }
}

/* Items are pixels of y. */
static void forward_block(const bo_cpu_block *block)
{
    pooling p = pooling_of(block->call);
    const float *images = block->call->in[0].data;
    for (size_t i = block->first; i < block->end; i++) {
        size_t image = i / (p.places[0] * p.places[1]);
        window w = window_at(&p, i / p.places[1] % p.places[0], i % p.places[1]);
        const float *x = images + image * p.windows.size[0] * p.windows.size[1] * p.channels;
        float *y = (float *)block->call->out[0].data + i * p.channels;
        if (p.kind == BO_POOL_KIND_MEAN)
            window_mean(&p, &w, x, y);
        else
            window_max(&p, &w, x, y, p.chosen ? p.chosen + i * p.channels : NULL);
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    size_t inside = call->out[0].rows ? call->in[0].rows / call->out[0].rows + 1 : 1;
    bo_blocks(context, call, call->out[0].rows, bo_block_rows(inside * call->in[0].columns), forward_block);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void spread_mean(const pooling *p, const window *w, const float *dy, float *dx)
{
    size_t n = p->channels, places = places_in(w);
    float share = 1.0f / (float)places;
    for (size_t i = 0; i < places; i++) {
        float *row = dx + place_in(p, w, i) * n;
        for (size_t j = 0; j < n; j++) row[j] += share * dy[j];
    }
}

/* Items are images, since windows may overlap. */
static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    pooling p = pooling_of(call);
    size_t n = p.channels, size = p.windows.size[0] * p.windows.size[1] * n;
    for (size_t image = block->first; image < block->end; image++) {
        float *dx = (float *)call->din[0] + image * size;
        if (!call->add[0]) memset(dx, 0, size * sizeof *dx);
        for (size_t place = 0; place < p.places[0] * p.places[1]; place++) {
            size_t at = (image * p.places[0] * p.places[1] + place) * n;
            const float *dy = (const float *)call->dout[0] + at;
            window w = window_at(&p, place / p.places[1], place % p.places[1]);
            if (p.kind == BO_POOL_KIND_MEAN)
                spread_mean(&p, &w, dy, dx);
            else
                for (size_t j = 0; j < n; j++) dx[(size_t)p.chosen[at + j] * n + j] += dy[j];
        }
    }
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call) || !call->din[0]) return BO_OK;
    pooling p = pooling_of(call);
    bo_blocks(context, call, p.images, bo_block_rows(p.windows.size[0] * p.windows.size[1] * p.channels),
              backward_block);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    const bo_pool_attributes *a = call->attributes;
    *saved = gradients && a->kind == BO_POOL_KIND_MAX ? bo_operand_floats(&call->out[0]) * sizeof(int32_t) : 0;
    *scratch = 0;
    return BO_OK;
}

const bo_op bo_cpu_pool = {
    .name = "pool",
    .attributes = sizeof(bo_pool_attributes),
    .shape = bo_shape_pool,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
