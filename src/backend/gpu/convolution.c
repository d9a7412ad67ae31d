/* Convolution of images and sequences: see cpu/convolution.c. The kernels follow the definition; they are fast for few
 * channels per group. */
#include "rows.h"
#include "../shapes.h"
#include "../sequences.h"

enum { MAX_PARTIAL = 1 << 21 }; /* doubles of partial sums, if more than one part */

static bool is_causal(const bo_op_call *call)
{
    return !((const bo_convolution_attributes *)call->attributes)->windows.width.size;
}

/* The fields that do not depend on the pass. */
static bo_gpu_convolution convolution_of(const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    const size_t groups = a->groups ? a->groups : 1;
    bo_grid grid = bo_grid_of(&a->windows);
    bo_gpu_convolution c = {.causal = is_causal(call),
                            .groups = groups,
                            .in = call->in[0].columns / groups,
                            .out = call->in[1].rows / groups,
                            .rows = call->in[0].rows,
                            .places = call->out[0].rows,
                            .scale = (float)(a->scale != 0 ? a->scale : 1),
                            .x = bo_gpu_in(call, 0),
                            .weight = bo_gpu_in(call, 1)};
    if (a->bias) c.bias = bo_gpu_in(call, 2);
    if (c.causal) grid.size[0] = 1, grid.size[1] = call->in[0].rows;
    c.windows = bo_gpu_windows_of(&grid, call);
    return c;
}

static size_t larger_sums(const bo_op_call *call)
{
    return bo_max(bo_gpu_count(&call->in[1]), call->out[0].columns);
}

static size_t parts_of(const bo_op_call *call)
{
    const size_t parts = MAX_PARTIAL / (larger_sums(call) + 1);
    return parts < 1 ? 1 : bo_min(parts, BO_GPU_COLUMN_PARTS);
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = call->din[1] || call->din[2] ? parts_of(call) * larger_sums(call) * sizeof(double) : 0;
    return BO_OK;
}

/* Adds the sequences of the pass, and their states. */
static bo_status begin(bo_context *context, const bo_op_call *call, bo_gpu_convolution *c)
{
    const bo_convolution_attributes *a = call->attributes;
    *c = convolution_of(call);
    if (!c->causal) return BO_OK;
    BO_TRY(bo_gpu_sequences(context, call, &a->sequences, "convolution", &c->sequences));
    c->states = bo_gpu_states_of(call, &a->sequences, &c->sequences);
    c->offset = a->sequences.offset;
    c->update = c->states && !call->again;
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_gpu_convolution c;
    BO_TRY(begin(context, call, &c));
    c.y = bo_gpu_out(call, 0);
    return BO_LAUNCH(context, convolution, &c);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    bo_gpu_convolution c;
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    if (is_causal(call)) BO_TRY(bo_spans_refuse_states(context, call, &a->sequences, "convolution"));
    BO_TRY(begin(context, call, &c));
    bo_gpu_convolution_back back = {.of = c,
                                    .dy = bo_gpu_dout(call, 0),
                                    .dx = bo_gpu_din(call, 0),
                                    .dweight = bo_gpu_din(call, 1),
                                    .parts = parts_of(call),
                                    .partial = call->scratch};
    if (a->bias) back.dbias = bo_gpu_din(call, 2);
    return BO_LAUNCH(context, convolution_back, &back);
}

/* The sequences of a causal convolution, which have states. */
static bo_sequences sequences(const bo_op_call *call)
{
    bo_sequences of = ((const bo_convolution_attributes *)call->attributes)->sequences;
    of.source |= !is_causal(call);
    return of;
}

/* Two FLOPs per element of a window. */
static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    return 2.0 * (double)bo_gpu_count(&call->out[0]) * (double)call->in[1].columns;
}

const bo_op bo_gpu_op_convolution = {
    .name = "convolution",
    .attributes = sizeof(bo_convolution_attributes),
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_convolution,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .sequences = sequences,
    .operations = operations,
};
