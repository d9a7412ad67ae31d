/* The states of layers, for sessions, lanes and classification: memory of the backend of the model. */
#include <string.h>
#include "../attention/attention.h"
#include "internal.h"

size_t bo_layer_state_bytes(const bo_model_desc *d, size_t layer, const bo_attention *attention)
{
    const bo_branch desc = bo_model_branch(d, layer, attention);
    return bo_nn_mixer_state_bytes(&desc);
}

size_t bo_layer_state_stride(const bo_model_desc *d, size_t layer, const bo_attention *attention)
{
    return bo_padded_bytes(bo_layer_state_bytes(d, layer, attention));
}

void *bo_layer_states_allocate(bo_context *context, const bo_model *model, size_t count, size_t bytes, const char *what)
{
    bo_device *device = bo_weights_device(model->weights);
    size_t all;
    if (!bo_device_is_gpu(device) || __builtin_mul_overflow(count, bytes, &all))
        return bo_alloc_sparse(context, count, bytes, what);
    return bo_buffer_allocate(context, device, all > 0 ? all : 1, what);
}

void bo_layer_states_release(const bo_model *model, void *memory)
{
    if (memory) bo_buffer_release(bo_weights_device(model->weights), memory);
}

bo_status bo_layer_states_zero(bo_context *context, const bo_model *model, void *memory, size_t bytes)
{
    bo_device *device = bo_weights_device(model->weights);
    if (bo_device_is_gpu(device)) return bo_buffer_zero(context, device, memory, bytes);
    bo_zero_block(memory);
    return BO_OK;
}

/* Only the first bytes of an empty state are not zero: a state with capacity for all keys is not copied. */
static bo_status start_on(bo_context *context, bo_device *device, const bo_attention *attention, void *state)
{
    const size_t bytes = bo_attention_state_prefix(attention);
    void *prefix = bo_alloc_raw(context, bytes, 1, "an empty state");
    if (!prefix) return BO_MEMORY;
    bo_attention_state_start(attention, prefix);
    const bo_status status = bo_buffer_write(context, device, state, prefix, bytes);
    bo_free(prefix);
    return status;
}

bo_status bo_attention_state_begin(bo_context *context, const bo_model *model, const bo_attention *attention,
                                   void *state)
{
    bo_device *device = bo_weights_device(model->weights);
    if (!bo_device_is_gpu(device)) return bo_attention_state_init(context, attention, state);
    BO_TRY(bo_buffer_zero(context, device, state, bo_attention_state_bytes(attention)));
    return start_on(context, device, attention, state);
}

bo_status bo_layer_state_start(bo_context *context, const bo_model *model, const bo_attention *attention, void *state)
{
    bo_device *device = bo_weights_device(model->weights);
    if (!attention) return BO_OK;
    if (bo_device_is_gpu(device)) return start_on(context, device, attention, state);
    bo_attention_state_start(attention, state);
    return BO_OK;
}

bo_status bo_layer_state_begin(bo_context *context, const bo_model *model, size_t layer, const bo_attention *attention,
                               void *state)
{
    if (attention) return bo_attention_state_begin(context, model, attention, state);
    const size_t bytes = bo_layer_state_bytes(&model->desc, layer, attention);
    return bytes ? bo_buffer_zero(context, bo_weights_device(model->weights), state, bytes) : BO_OK;
}
