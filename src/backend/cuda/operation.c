/* Parts that operations share. */
#include "rows.h"

bo_status bo_cuda_no_gradient(bo_context *context, const bo_op_call *call, size_t input)
{
    const bo_cuda_device *d = bo_cuda_open_device();
    if (!call->din[input] || call->add[input]) return BO_OK;
    const size_t bytes = bo_cuda_count(&call->in[input]) * bo_cuda_bytes(bo_cuda_type_of(call->in[input].element));
    return bo_cuda_check(context, d->functions->fill(d->cuda, call->din[input], 0, bytes));
}

bo_status bo_cuda_backward_zero(bo_context *context, const bo_op_call *call, bool *done)
{
    *done = false;
    for (size_t i = 0; i < call->outputs; i++)
        if (call->dout[i]) return BO_OK;
    *done = true;
    for (size_t i = 0; i < call->inputs; i++) BO_TRY(bo_cuda_no_gradient(context, call, i));
    return BO_OK;
}

bo_status bo_cuda_hand_back(bo_context *context, const bo_op_call *call, size_t input)
{
    if (!call->din[input]) return BO_OK;
    return BO_LAUNCH(context, plus,
                     &((bo_cuda_plus){.count = bo_cuda_count(&call->in[input]),
                                      .a = bo_cuda_dout(call, 0),
                                      .y = bo_cuda_din(call, input)}));
}

bo_status bo_cuda_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved,
                             size_t *scratch)
{
    (void)context, (void)call, (void)gradients;
    *saved = *scratch = 0;
    return BO_OK;
}
