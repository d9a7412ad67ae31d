/* What layers remember of a sequence, for all who read with a state. */
#include <string.h>
#include "internal.h"

size_t bo_layer_state_bytes(const bo_model_desc *d, size_t layer, bo_attention *attention)
{
    bo_mixer_layer desc = bo_model_mixer(d, layer, attention);
    return bo_nn_mixer_state_bytes(&desc);
}

size_t bo_layer_state_room(const bo_model_desc *d, size_t layer, bo_attention *attention)
{
    return (bo_layer_state_bytes(d, layer, attention) + 63) / 64 * 64;
}

bo_status bo_layer_state_begin(bo_context *context, const bo_model_desc *d, size_t layer, bo_attention *attention,
                               void *state)
{
    if (attention) return bo_attention_state_begin(context, attention, state);
    memset(state, 0, bo_layer_state_bytes(d, layer, attention));
    return BO_OK;
}
