/* a + b. */
#include "cuda.h"
#include "../shapes.h"

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return BO_LAUNCH(context, add, &((bo_cuda_add){.type = bo_cuda_type_of(call->out[0].element),
                                                   .count = bo_cuda_count(&call->out[0]),
                                                   .a = call->in[0].data,
                                                   .b = call->in[1].data,
                                                   .y = call->out[0].data}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_cuda_backward_zero(context, call, &done));
    if (done) return BO_OK;
    BO_TRY(bo_cuda_hand_back(context, call, 0));
    return bo_cuda_hand_back(context, call, 1);
}

const bo_op bo_cuda_op_add = {
    .name = "add",
    .passes = bo_passes_add,
    .shape = bo_shape_add,
    .sizes = bo_cuda_sizes_none,
    .forward = forward,
    .backward = backward,
};
