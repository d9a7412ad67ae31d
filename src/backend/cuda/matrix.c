#include "matrix.h"
#include <assert.h>

bo_cuda_stored bo_cuda_stored_of(bo_element element)
{
    switch (element) {
    case BO_ELEMENT_BFLOAT16:
        return BO_CUDA_STORED_BF16;
    case BO_ELEMENT_INT8:
        return BO_CUDA_STORED_INT8;
    case BO_ELEMENT_INT4:
        return BO_CUDA_STORED_INT4;
    default:
        return BO_CUDA_STORED_F32;
    }
}

static bool has_type(const bo_tensor *tensor, bo_cuda_type type)
{
    return tensor->element == (type == BO_CUDA_BF16 ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32);
}

const void *bo_cuda_factor(bo_cuda_recast *list, bo_carver *carver, const bo_tensor *tensor, size_t padded_rows,
                           bo_cuda_type type)
{
    if (has_type(tensor, type) && padded_rows == tensor->rows) return tensor->data;
    assert(list->count < BO_CUDA_RECASTS);
    void *to = bo_carve(carver, padded_rows * tensor->columns, bo_cuda_bytes(type));
    list->items[list->count++] = (bo_cuda_recast_item){
        .from = tensor->data,
        .to = to,
        .rows = tensor->rows,
        .padded_rows = padded_rows,
        .columns = tensor->columns,
        .stored = bo_cuda_stored_of(tensor->element),
        .to_type = type,
    };
    return to;
}

bo_status bo_cuda_recast_all(bo_context *context, const bo_cuda_recast *list)
{
    return list->count ? BO_LAUNCH(context, recast, list) : BO_OK;
}

bo_cuda_type bo_cuda_products(const bo_op_call *call)
{
    bool narrow = call->in[0].element == BO_ELEMENT_BFLOAT16;
    for (size_t i = 0; i < call->outputs; i++) narrow |= call->out[i].element == BO_ELEMENT_BFLOAT16;
    return narrow ? BO_CUDA_BF16 : BO_CUDA_F32;
}

size_t bo_cuda_sum_floats(size_t rows, size_t columns)
{
    return bo_cuda_sum_parts(rows) * columns;
}

bo_status bo_cuda_refuse_integers(bo_context *context, const bo_op_call *call, const char *op)
{
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i] && (call->in[i].element == BO_ELEMENT_INT8 || call->in[i].element == BO_ELEMENT_INT4))
            return bo_fail(context, BO_INVALID, "%s: input %zu is stored as integers and has no gradient", op, i);
    return BO_OK;
}
