/* RMSNorm (1910.07467) and LayerNorm (1607.06450) of groups of columns: the formulas are in cpu/norm.c. */
#include "rows.h"
#include "../shapes.h"

/* Indices of the inputs after x; 0: absent. */
static size_t gain_input(const bo_norm_attributes *a)
{
    return a->gain ? 1 : 0;
}

static size_t bias_input(const bo_norm_attributes *a)
{
    return a->bias ? (size_t)1 + a->gain : 0;
}

static size_t groups_of(const bo_op_call *call)
{
    return bo_gpu_count(&call->in[0]) / ((const bo_norm_attributes *)call->attributes)->width;
}

static size_t processors_of(const bo_context *context)
{
    return (size_t)bo_device_properties(bo_device_of(context))->processors;
}

/* Blocks that sum the gradients of gain and bias: two and three blocks fit into a multiprocessor. */
static size_t blocks_of(const bo_context *context)
{
    return processors_of(context) * 6;
}

static bo_status shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(bo_shape_norm(context, call));
    const size_t width = ((const bo_norm_attributes *)call->attributes)->width;
    if (width > BO_GPU_NORM_WIDEST)
        return bo_fail(context, BO_UNSUPPORTED, "norm: groups of %zu columns, on GPUs at most %d; use the CPU", width,
                       BO_GPU_NORM_WIDEST);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    const bo_norm_attributes *a = call->attributes;
    const size_t numbers = a->kind == BO_NORM_LAYER ? 2 : 1;
    *saved = gradients ? numbers * groups_of(call) * sizeof(float) : 0;
    *scratch = call->din[1] || call->din[2] ? blocks_of(context) * 2 * a->width * sizeof(float) : 0;
    return BO_OK;
}

/* The rate and the mean of each group that forward saves. */
static float *rates(const bo_op_call *call)
{
    return call->saved;
}

static float *means(const bo_op_call *call)
{
    const bool centered = ((const bo_norm_attributes *)call->attributes)->kind == BO_NORM_LAYER;
    return centered && call->saved ? (float *)call->saved + groups_of(call) : NULL;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_norm_attributes *a = call->attributes;
    bo_gpu_norm n = {.groups = groups_of(call),
                     .width = a->width,
                     .processors = processors_of(context),
                     .centered = a->kind == BO_NORM_LAYER,
                     .epsilon = (float)a->epsilon,
                     .x = bo_gpu_in(call, 0),
                     .y = bo_gpu_out(call, 0),
                     .rate = rates(call),
                     .mean = means(call)};
    if (a->gain) n.gain = bo_gpu_in(call, gain_input(a));
    if (a->bias) n.bias = bo_gpu_in(call, bias_input(a));
    return BO_LAUNCH(context, norm, &n);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_norm_attributes *a = call->attributes;
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    bo_gpu_norm_back n = {.groups = groups_of(call),
                          .width = a->width,
                          .x = bo_gpu_in(call, 0),
                          .dy = bo_gpu_dout(call, 0),
                          .rate = rates(call),
                          .mean = means(call),
                          .dx = bo_gpu_din(call, 0),
                          .processors = processors_of(context),
                          .blocks = blocks_of(context),
                          .partial = call->scratch};
    if (a->gain) n.gain = bo_gpu_in(call, gain_input(a)), n.dgain = bo_gpu_din(call, gain_input(a));
    if (a->bias) n.dbias = bo_gpu_din(call, bias_input(a));
    return BO_LAUNCH(context, norm_back, &n);
}

const bo_op bo_gpu_op_norm = {
    .name = "norm",
    .attributes = sizeof(bo_norm_attributes),
    .reads_inputs = 1 << 0 | 1 << 1, /* x and the gain */
    .shape = shape,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
