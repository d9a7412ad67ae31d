/* Rotary positions (2104.09864): pairs (a, b) of the first `rotated` columns of each head are rotated by position times
 * base^(-2i / rotated), which a scaling may change: (a cos - b sin, a sin + b cos). Backward rotates by the negative
 * angle. */
#include "cpu.h"
#include <string.h>
#include "angles.h"
#include "../shapes.h"

typedef struct rope {
    size_t dim, rotated, columns;
    size_t partner, step; /* the partner of column i * step is `partner` columns later */
} rope;

static rope rope_of(const bo_op_call *call)
{
    const bo_rope_attributes *a = call->attributes;
    rope r = {.dim = a->dim, .rotated = a->rotated ? a->rotated : a->dim, .columns = call->in[0].columns};
    bool halves = a->layout == BO_ROPE_LAYOUT_HALVES;
    r.partner = halves ? r.rotated / 2 : 1;
    r.step = halves ? 1 : 2;
    return r;
}

/* Rotates the pairs of one head; `to` may equal `from`. */
static void turn_halves(size_t count, size_t half, const float *sine, const float *cosine, const float *from, bool add,
                        float *to)
{
    for (size_t i = 0; i < count; i++) {
        float a = from[i], b = from[i + half];
        bo_store(&to[i], add, a * cosine[i] - b * sine[i]);
        bo_store(&to[i + half], add, a * sine[i] + b * cosine[i]);
    }
}

static void turn_neighbors(size_t count, const float *sine, const float *cosine, const float *from, bool add, float *to)
{
    for (size_t i = 0; i < count; i++) {
        float a = from[2 * i], b = from[2 * i + 1];
        bo_store(&to[2 * i], add, a * cosine[i] - b * sine[i]);
        bo_store(&to[2 * i + 1], add, a * sine[i] + b * cosine[i]);
    }
}

/* Copies the columns of the heads of a row that are not rotated. */
static void keep_rest(const rope *r, const float *from, bool add, float *to)
{
    for (size_t h = 0; r->rotated < r->dim && h < r->columns; h += r->dim)
        for (size_t j = h + r->rotated; j < h + r->dim; j++) bo_store(&to[j], add, from[j]);
}

static void rotate_row(const rope *r, const bo_cpu_block *block, int32_t position, float sign, const float *from,
                       bool add, float *to)
{
    float sine[BO_ANGLES], cosine[BO_ANGLES];
    bo_angles angles = bo_angles_in(r->rotated, block->call->scratch);
    for (size_t first = 0; first < angles.pairs; first += BO_ANGLES) {
        size_t count = angles.pairs - first < BO_ANGLES ? angles.pairs - first : BO_ANGLES;
        bo_angles_sincos(&angles, block->kernels, position, first, count, sine, cosine);
        for (size_t i = 0; i < count; i++) sine[i] *= sign;
        for (size_t h = first * r->step; h < r->columns; h += r->dim) {
            if (r->step == 1)
                turn_halves(count, r->partner, sine, cosine, from + h, add, to + h);
            else
                turn_neighbors(count, sine, cosine, from + h, add, to + h);
        }
    }
    keep_rest(r, from, add, to);
}

static void forward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const int32_t *position = call->in[1].data;
    rope r = rope_of(call);
    for (size_t row = block->first; row < block->end; row++)
        rotate_row(&r, block, position[row], 1, (const float *)call->in[0].data + row * r.columns, false,
                   (float *)call->out[0].data + row * r.columns);
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const int32_t *position = call->in[1].data;
    rope r = rope_of(call);
    for (size_t row = block->first; row < block->end; row++)
        rotate_row(&r, block, position[row], -1, (const float *)call->dout[0] + row * r.columns, call->add[0],
                   (float *)call->din[0] + row * r.columns);
}

static void run(bo_context *context, const bo_op_call *call, bo_block_fn fn)
{
    const bo_rope_attributes *a = call->attributes;
    rope r = rope_of(call);
    bo_angles_fill(r.rotated, a->base != 0 ? a->base : 10000, &a->scaling, call->scratch);
    bo_blocks(context, call, call->in[0].rows, bo_block_rows(r.columns), fn);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    run(context, call, forward_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (!bo_backward_is_zero(call) && call->din[0]) run(context, call, backward_block);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = bo_angles_bytes(rope_of(call).rotated);
    return BO_OK;
}

const bo_op bo_cpu_rope = {
    .name = "rope",
    .attributes = sizeof(bo_rope_attributes),
    .reads_inputs = 1 << 1,
    .shape = bo_shape_rope,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
