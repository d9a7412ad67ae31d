/* Parts that operations share. */
#include "cuda.h"

bo_status bo_cuda_backward_zero(bo_context *context, const bo_op_call *call, bool *done)
{
    const bo_cuda_device *d = bo_cuda_open_device();
    *done = false;
    for (size_t i = 0; i < call->outputs; i++)
        if (call->dout[i]) return BO_OK;
    *done = true;
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i] && !call->add[i])
            BO_TRY(bo_cuda_check(
                context, d->functions->fill(d->cuda, call->din[i], 0,
                                            bo_cuda_count(&call->in[i]) * bo_cuda_bytes(bo_cuda_type_of(call->in[i].element)))));
    return BO_OK;
}

bo_status bo_cuda_hand_back(bo_context *context, const bo_op_call *call, size_t input)
{
    if (!call->din[input]) return BO_OK;
    return BO_LAUNCH(context, add, &((bo_cuda_add){.type = bo_cuda_type_of(call->in[input].element),
                                                   .count = bo_cuda_count(&call->in[input]),
                                                   .a = call->dout[0],
                                                   .y = call->din[input],
                                                   .accumulate = call->add[input]}));
}

bo_status bo_cuda_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved,
                             size_t *scratch)
{
    (void)context, (void)call, (void)gradients;
    *saved = *scratch = 0;
    return BO_OK;
}
