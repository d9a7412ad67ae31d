/* Parts that operations share. */
#include "rows.h"

bo_status bo_gpu_no_gradient(bo_context *context, const bo_op_call *call, size_t input)
{
    if (!call->din[input] || call->add[input]) return BO_OK;
    const size_t bytes = bo_gpu_count(&call->in[input]) * bo_gpu_bytes(call->in[input].element);
    return bo_buffer_zero(context, bo_device_of(context), call->din[input], bytes);
}

bo_status bo_gpu_backward_zero(bo_context *context, const bo_op_call *call, bool *done)
{
    *done = false;
    for (size_t i = 0; i < call->outputs; i++)
        if (call->dout[i]) return BO_OK;
    *done = true;
    for (size_t i = 0; i < call->inputs; i++) BO_TRY(bo_gpu_no_gradient(context, call, i));
    return BO_OK;
}

bo_status bo_gpu_pass_gradient(bo_context *context, const bo_op_call *call, size_t input)
{
    if (!call->din[input]) return BO_OK;
    return BO_LAUNCH(context, plus,
                     &((bo_gpu_plus){.count = bo_gpu_count(&call->in[input]),
                                     .a = bo_gpu_dout(call, 0),
                                     .y = bo_gpu_din(call, input)}));
}

bo_status bo_gpu_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)call, (void)gradients;
    *saved = *scratch = 0;
    return BO_OK;
}
