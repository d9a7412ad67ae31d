/* Pooling: see cpu/pool.c. */
#include "rows.h"
#include "../shapes.h"

static bool is_mean(const bo_op_call *call)
{
    return ((const bo_pool_attributes *)call->attributes)->kind == BO_POOL_KIND_MEAN;
}

static bo_gpu_windows windows_of(const bo_op_call *call)
{
    const bo_grid grid = bo_grid_of(&((const bo_pool_attributes *)call->attributes)->windows);
    return bo_gpu_windows_of(&grid, call);
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    *saved = gradients && !is_mean(call) ? bo_gpu_count(&call->out[0]) * sizeof(int32_t) : 0;
    *scratch = 0;
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return BO_LAUNCH(context, pool,
                     &((bo_gpu_pool){.windows = windows_of(call),
                                     .mean = is_mean(call),
                                     .x = bo_gpu_in(call, 0),
                                     .y = bo_gpu_out(call, 0),
                                     .chosen = is_mean(call) ? NULL : call->saved}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    return BO_LAUNCH(context, pool_back,
                     &((bo_gpu_pool_back){.windows = windows_of(call),
                                          .mean = is_mean(call),
                                          .dy = bo_gpu_dout(call, 0),
                                          .chosen = call->saved,
                                          .dx = bo_gpu_din(call, 0)}));
}

const bo_op bo_gpu_op_pool = {
    .name = "pool",
    .attributes = sizeof(bo_pool_attributes),
    .shape = bo_shape_pool,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
