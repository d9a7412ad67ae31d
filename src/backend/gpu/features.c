/* φ(x) of a feature map with frequencies that are constant: features/gpu/map.h. */
#include "rows.h"
#include "../shapes.h"
#include "../../features/gpu/map.h"

static const bo_features *map_of(const bo_op_call *call)
{
    return ((const bo_features_attributes *)call->attributes)->features;
}

static bo_status shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(bo_shape_features(context, call));
    return bo_gpu_map_check(context, map_of(call));
}

static bo_status prepare(bo_context *context, const bo_op_call *call)
{
    return bo_gpu_map_prepare(context, map_of(call));
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = bo_gpu_map_bytes(map_of(call), call->in[0].rows);
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return bo_gpu_map_forward(context, map_of(call), call->in[0].rows, bo_gpu_in(call, 0), call->in[0].columns, NULL,
                              bo_gpu_out(call, 0), call->out[0].columns, call->scratch);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    return bo_gpu_map_backward(context, map_of(call), call->in[0].rows, bo_gpu_in(call, 0),
                               (bo_gpu_source){call->out[0].data, call->out[0].element}, bo_gpu_dout(call, 0),
                               bo_gpu_din(call, 0), call->scratch);
}

static double operations(bo_context *context, const bo_op_call *call)
{
    return bo_backend_cpu()->ops[BO_OPERATION_FEATURES]->operations(context, call);
}

const bo_op bo_gpu_op_features = {
    .name = "features",
    .attributes = sizeof(bo_features_attributes),
    .reads_inputs = 1 << 0,
    .reads_outputs = 1 << 0,
    .shape = shape,
    .sizes = sizes,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
