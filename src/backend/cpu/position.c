/* x + P[positions]: rows of a learned table, or sines and cosines (1706.03762). */
#include "cpu.h"
#include "angles.h"
#include "scatter.h"
#include "../shapes.h"

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void learned_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const int32_t *position = call->in[1].data;
    const float *x = call->in[0].data, *table = call->in[2].data;
    float *y = call->out[0].data;
    size_t width = call->in[0].columns;
    for (size_t r = block->first; r < block->end; r++) {
        const float *from = x + r * width, *row = table + (size_t)position[r] * width;
        for (size_t j = 0; j < width; j++) y[r * width + j] = from[j] + row[j];
    }
}

/* Columns 2i and 2i + 1 are the sine and cosine of frequency i. If the number of columns is odd, the last one is a
 * sine. */
static void sinusoidal_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const int32_t *position = call->in[1].data;
    size_t width = call->in[0].columns;
    bo_angles angles = bo_angles_in(width, call->scratch);
    for (size_t r = block->first; r < block->end; r++) {
        const float *x = (const float *)call->in[0].data + r * width;
        float *y = (float *)call->out[0].data + r * width, sine[BO_ANGLES], cosine[BO_ANGLES];
        for (size_t first = 0; first < angles.pairs; first += BO_ANGLES) {
            size_t count = angles.pairs - first < BO_ANGLES ? angles.pairs - first : BO_ANGLES;
            bo_angles_sincos(&angles, block->kernels, position[r], first, count, sine, cosine);
            for (size_t i = 0; i < count; i++) {
                size_t j = 2 * (first + i);
                y[j] = x[j] + sine[i];
                if (j + 1 < width) y[j + 1] = x[j + 1] + cosine[i];
            }
        }
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_position_attributes *a = call->attributes;
    size_t width = call->in[0].columns;
    bool learned = a->kind == BO_POSITION_KIND_LEARNED;
    if (learned)
        BO_TRY(bo_indices_check(context, &call->in[1], call->in[2].rows, "position", "position"));
    else
        bo_angles_fill(width, 10000, &(bo_rope_scaling){0}, call->scratch);
    bo_blocks(context, call, call->in[0].rows, bo_block_rows(width), learned ? learned_block : sinusoidal_block);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call)) return BO_OK;
    bo_hand_back(context, call, 0);
    if (call->inputs > 2) bo_scatter(context, call, 1, 2);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    const bo_position_attributes *a = call->attributes;
    *saved = 0;
    *scratch = a->kind == BO_POSITION_KIND_SINUSOIDAL ? bo_angles_bytes(call->in[0].columns) : 0;
    return BO_OK;
}

const bo_op bo_cpu_position = {
    .name = "position",
    .attributes = sizeof(bo_position_attributes),
    .reads_inputs = 1 << 1,
    .shape = bo_shape_position,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
