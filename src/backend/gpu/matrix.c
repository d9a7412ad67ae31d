#include "matrix.h"
#include <assert.h>

static bool has_type(const bo_tensor *tensor, bo_element type)
{
    return tensor->element == (type == BO_ELEMENT_BFLOAT16 ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32);
}

const void *bo_gpu_factor(bo_gpu_recast *list, bo_carver *carver, const bo_tensor *tensor, size_t padded_rows,
                          bo_element type)
{
    if (has_type(tensor, type) && padded_rows == tensor->rows) return tensor->data;
    assert(list->count < BO_GPU_RECASTS);
    void *to = bo_carve(carver, padded_rows * tensor->columns, bo_gpu_bytes(type));
    list->items[list->count++] = (bo_gpu_recast_item){
        .from = tensor->data,
        .to = to,
        .rows = tensor->rows,
        .padded_rows = padded_rows,
        .columns = tensor->columns,
        .stored = tensor->element,
        .to_type = type,
    };
    return to;
}

bo_status bo_gpu_recast_all(bo_context *context, const bo_gpu_recast *list)
{
    return list->count ? BO_LAUNCH(context, recast, list) : BO_OK;
}

bo_element bo_gpu_products(const bo_op_call *call)
{
    bool narrow = call->in[0].element == BO_ELEMENT_BFLOAT16;
    for (size_t i = 0; i < call->outputs; i++) narrow |= call->out[i].element == BO_ELEMENT_BFLOAT16;
    return narrow ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32;
}

size_t bo_gpu_sum_floats(size_t rows, size_t columns)
{
    return bo_gpu_sum_parts(rows) * columns;
}

bo_status bo_gpu_refuse_integers(bo_context *context, const bo_op_call *call, const char *op)
{
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i] && (call->in[i].element == BO_ELEMENT_INT8 || call->in[i].element == BO_ELEMENT_INT4))
            return bo_fail(context, BO_INVALID, "%s: input %zu is stored as integers and has no gradient", op, i);
    return BO_OK;
}
