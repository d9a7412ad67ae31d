/* Mixers of any kind: which function records each, and what its memory takes. */
#include "internal.h"

static bo_value attend(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                       const bo_mixer_layer *desc)
{
    return bo_nn_attention(graph, prefix, x, residual, positions, &desc->attention);
}

/* `state_bytes` is NULL where the kind attends: the attention knows. */
static const struct {
    bo_value (*record)(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                       const bo_mixer_layer *desc);
    size_t (*state_bytes)(const bo_mixer_layer *desc);
} kinds[BO_MIXER_COUNT] = {
    [BO_MIXER_ATTENTION] = {attend, NULL},
    [BO_MIXER_MLP] = {bo_nn_mix_mixer, bo_nn_mix_mixer_bytes},
    [BO_MIXER_CONV] = {bo_nn_convolution_mixer, bo_nn_convolution_mixer_bytes},
    [BO_MIXER_RNN] = {bo_nn_recurrent_mixer, bo_nn_recurrent_mixer_bytes},
    [BO_MIXER_GRU] = {bo_nn_recurrent_mixer, bo_nn_recurrent_mixer_bytes},
    [BO_MIXER_LSTM] = {bo_nn_recurrent_mixer, bo_nn_recurrent_mixer_bytes},
    [BO_MIXER_SSM] = {bo_nn_ssm_mixer, bo_nn_ssm_mixer_bytes},
    [BO_MIXER_DEGREE_2] = {bo_nn_degree_2_mixer, bo_nn_degree_2_mixer_bytes},
    [BO_MIXER_DEGREE_3] = {bo_nn_degree_mixer, NULL},
    [BO_MIXER_DEGREE_4] = {bo_nn_degree_mixer, NULL},
    [BO_MIXER_DEGREE_E] = {bo_nn_degree_mixer, NULL},
};

bool bo_nn_mixer_attends(bo_mixer kind)
{
    return !kinds[kind].state_bytes;
}

size_t bo_nn_mixer_state_bytes(const bo_mixer_layer *desc)
{
    if (bo_nn_mixer_attends(desc->kind)) return bo_attention_state_bytes(desc->attention.attention);
    return kinds[desc->kind].state_bytes(desc);
}

bo_value bo_nn_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                     const bo_mixer_layer *desc)
{
    return kinds[desc->kind].record(graph, prefix, x, residual, positions, desc);
}
