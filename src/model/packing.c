/* Weights of a model as the tensors of its family, to be written to a file: the inverse of reading them. */
#include <string.h>
#include "families.h"

/* Tensors get their memory one after the other. */
typedef struct packer {
    bo_context *context;
    bo_device *device;
    bo_package *out;
    char *buffer;      /* memory of one weight */
    size_t used, size; /* bytes of out->host */
} packer;

static size_t bytes_of(const bo_weight *weight)
{
    return bo_element_bytes(weight->element, weight->rows, weight->columns);
}

/* Finds the tensor of a weight, which may contain other weights already, or adds it. */
static bo_status open_tensor(packer *p, const bo_weight *weight, const bo_weight_place *at, bo_file_tensor **tensor)
{
    for (size_t i = p->out->count; i-- > 0;)
        if (strcmp(p->out->tensors[i].name, at->tensor) == 0) {
            *tensor = &p->out->tensors[i];
            return BO_OK;
        }
    bo_file_tensor made = {.dtype = weight->element == BO_ELEMENT_BFLOAT16 ? BO_BF16 : BO_F32, .rank = weight->rank};
    memcpy(made.shape, weight->shape, weight->rank * sizeof *weight->shape);
    made.shape[at->transposed ? 1 : 0] = at->rows;
    if (at->transposed) made.shape[0] = weight->shape[1];
    made.bytes = bytes_of(weight) / weight->shape[0] * at->rows;
    made.data = (char *)p->out->host + p->used;
    p->used += made.bytes;
    if (p->used > p->size) return bo_fail(p->context, BO_INVALID, "the tensors are larger than the weights");
    BO_TRY(bo_package_add(p->context, p->out, at->tensor, &made));
    *tensor = &p->out->tensors[p->out->count - 1];
    return BO_OK;
}

static void subtract(float *numbers, size_t count, float offset)
{
    for (size_t i = 0; offset != 0 && i < count; i++) numbers[i] -= offset;
}

/* Copies the rows of a weight to their places. */
static void place_rows(const packer *p, const bo_weight *weight, const bo_weight_place *at, char *to)
{
    const size_t rows = weight->shape[0], row_bytes = bytes_of(weight) / rows;
    const size_t each = weight->element == BO_ELEMENT_BFLOAT16 ? sizeof(uint16_t) : sizeof(float);
    for (size_t r = 0; r < rows; r++) {
        const char *from = p->buffer + r * row_bytes;
        const size_t row = at->first + r / at->group * at->period + r % at->group;
        if (!at->transposed) memcpy(to + row * row_bytes, from, row_bytes);
        for (size_t c = 0; at->transposed && c < row_bytes / each; c++)
            memcpy(to + (c * at->rows + row) * each, from + c * each, each);
    }
}

static bo_status pack(packer *p, const bo_weight *weight, const bo_weight_place *at)
{
    bo_file_tensor *tensor = NULL;
    if (weight->element != BO_ELEMENT_FLOAT32 && weight->element != BO_ELEMENT_BFLOAT16)
        return bo_fail(p->context, BO_UNSUPPORTED, "%s is stored as %s, which cannot be written to a file",
                       weight->name, weight->element == BO_ELEMENT_INT8 ? "int8" : "integers");
    BO_TRY(open_tensor(p, weight, at, &tensor));
    BO_TRY(bo_buffer_read(p->context, p->device, p->buffer, weight->data, bytes_of(weight)));
    if (weight->element == BO_ELEMENT_FLOAT32)
        subtract((float *)(void *)p->buffer, weight->rows * weight->columns, at->offset);
    place_rows(p, weight, at, (char *)(uintptr_t)tensor->data);
    return BO_OK;
}

bo_status bo_family_pack(bo_context *context, const bo_model *model, bo_family family, bo_package *out)
{
    const size_t count = bo_weights_count(model->weights);
    packer p = {.context = context, .device = bo_weights_device(model->weights), .out = out};
    size_t max_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = bytes_of(bo_weights_at(model->weights, i));
        p.size += bytes;
        if (bytes > max_bytes) max_bytes = bytes;
    }
    BO_TRY(bo_package_begin(context, count, p.size, out));
    p.buffer = bo_alloc_raw(context, max_bytes, 1, "a weight for a file");
    bo_status status = p.buffer ? BO_OK : BO_MEMORY;
    for (size_t i = 0; i < count && status == BO_OK; i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        const bo_weight_place at = bo_family_place(family, &model->desc, weight);
        status = pack(&p, weight, &at);
    }
    bo_free(p.buffer);
    return status;
}
