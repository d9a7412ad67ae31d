/* In training: x + amount ε, or x with elements or rows set to 0 (denoising and masked autoencoders, dropped nodes). In
 * evaluation: x. */
#include "cpu.h"
#include <math.h>
#include <string.h>
#include "blocks.h"
#include "masks.h"
#include "../shapes.h"
#include "../../base/rng.h"

static bool is_active(const bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    return call->pass->training && a->amount > 0;
}

static uint64_t stream_of(const bo_op_call *call)
{
    return bo_rng_stream("noise", ((const bo_noise_attributes *)call->attributes)->stream);
}

/* ---- additive noise ---------------------------------------------------------------------------------------------- */

/* Computes two N(0, 1) samples from two random integers (Box-Muller). The radius uses u in (0, 1]. */
static void normals(uint32_t first, uint32_t second, float *out)
{
    float u = ((float)(first >> 8) + 1) * 0x1p-24f, turn = (float)(second >> 8) * 0x1p-24f;
    float radius = sqrtf(-2 * logf(u)), angle = 6.2831853071795865f * turn;
    out[0] = radius * cosf(angle);
    out[1] = radius * sinf(angle);
}

static void add_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const float *x = call->in[0].data;
    float *y = call->out[0].data, amount = (float)((const bo_noise_attributes *)call->attributes)->amount;
    uint32_t bits[BO_MASK_STRIP];
    float noise[BO_MASK_STRIP];
    for (size_t first = block->first; first < block->end; first += BO_MASK_STRIP) {
        size_t count = block->end - first < BO_MASK_STRIP ? block->end - first : BO_MASK_STRIP;
        block->kernels->random(call->pass->seed, stream_of(call), first / BO_RANDOM_GROUP,
                               bo_block_count(count, BO_RANDOM_GROUP), bits);
        for (size_t i = 0; i < count; i += 2) normals(bits[i], bits[i + 1], noise + i); /* group sizes are even */
        for (size_t i = 0; i < count; i++) y[first + i] = x[first + i] + amount * noise[i];
    }
}

/* ---- masked elements and rows
 * ------------------------------------------------------------------------------------- */

static void mask_numbers(const bo_cpu_block *block, const float *from, bool add, float *to)
{
    const bo_noise_attributes *a = block->call->attributes;
    float mask[BO_MASK_STRIP];
    for (size_t first = block->first; first < block->end; first += BO_MASK_STRIP) {
        size_t count = block->end - first < BO_MASK_STRIP ? block->end - first : BO_MASK_STRIP;
        bo_mask_draw(block->kernels, block->call->pass->seed, stream_of(block->call), a->amount, 1, first, count, mask);
        block->kernels->product(count, from + first, mask, add, to + first);
    }
}

static void mask_row(float mask, size_t columns, const float *from, bool add, float *to)
{
    if (mask == 0 && !add) memset(to, 0, columns * sizeof *to);
    for (size_t i = 0; mask != 0 && i < columns; i++) bo_store(&to[i], add, from[i]);
}

static void mask_rows(const bo_cpu_block *block, const float *from, bool add, float *to)
{
    const bo_noise_attributes *a = block->call->attributes;
    size_t columns = block->call->in[0].columns;
    float mask[BO_MASK_STRIP];
    for (size_t first = block->first; first < block->end; first += BO_MASK_STRIP) {
        size_t count = block->end - first < BO_MASK_STRIP ? block->end - first : BO_MASK_STRIP;
        bo_mask_draw(block->kernels, block->call->pass->seed, stream_of(block->call), a->amount, 1, first, count, mask);
        for (size_t r = 0; r < count; r++)
            mask_row(mask[r], columns, from + (first + r) * columns, add, to + (first + r) * columns);
    }
}

static void mask_forward(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    bool rows = ((const bo_noise_attributes *)call->attributes)->kind == BO_NOISE_ROWS;
    (rows ? mask_rows : mask_numbers)(block, call->in[0].data, false, call->out[0].data);
}

static void mask_backward(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    bool rows = ((const bo_noise_attributes *)call->attributes)->kind == BO_NOISE_ROWS;
    (rows ? mask_rows : mask_numbers)(block, call->dout[0], call->add[0], call->din[0]);
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

static void run_blocks(bo_context *context, const bo_op_call *call, bo_block_fn fn)
{
    bool rows = ((const bo_noise_attributes *)call->attributes)->kind == BO_NOISE_ROWS;
    if (rows)
        bo_blocks(context, call, call->in[0].rows, BO_MASK_STRIP, fn);
    else
        bo_blocks(context, call, bo_operand_floats(&call->in[0]), BO_BLOCK_FLOATS, fn);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    if (!is_active(call))
        memcpy(call->out[0].data, call->in[0].data, bo_operand_floats(&call->in[0]) * sizeof(float));
    else
        run_blocks(context, call, a->kind == BO_NOISE_NORMAL ? add_block : mask_forward);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    if (bo_backward_is_zero(call) || !call->din[0]) return BO_OK;
    if (is_active(call) && a->kind != BO_NOISE_NORMAL)
        run_blocks(context, call, mask_backward);
    else
        bo_hand_back(context, call, 0);
    return BO_OK;
}

const bo_op bo_cpu_noise = {
    .name = "noise",
    .attributes = sizeof(bo_noise_attributes),
    .shape = bo_shape_noise,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
