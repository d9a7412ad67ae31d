/* Mixers whose output is a polynomial of the tokens X (rows) of a sequence, up to norms. The layer X Π (W_k Xᵀ) fits together
 * as written for some degrees only; what stands for it, all of it causal:
 *   2   (X W_1) ∘ (T X W_2)            T a decaying mean of each channel, learned, that does not look at X
 *   3   (X W_q W_kᵀ Xᵀ) X W_v          linear attention without features and without a normalizer
 *   4   that, ∘ (X W_3)
 *   e   |X W_q W_kᵀ Xᵀ|^p X W_v        with 2p + 1 = e, weights divided by their sum
 * Heads have their own W; each head's output is normalized and all are projected and added to the residual. 3, 4 and e are
 * made of the attention that bo_nn_mixer_attention describes. */
#include "internal.h"

void bo_nn_mixer_attention(bo_mixer kind, bo_attention_desc *out)
{
    *out = (bo_attention_desc){.kind = BO_ATTENTION_LINEAR,
                               .normalizer = BO_NORMALIZER_NONE,
                               .causal = true,
                               .features = {.kernel = BO_KERNEL_LINEAR}};
    if (kind == BO_MIXER_DEGREE_E)
        *out = (bo_attention_desc){.kind = BO_ATTENTION_POWER, .power = (BO_NN_E - 1) / 2, .causal = true};
}

enum { STATES = 4 }; /* decays that T of a channel mixes */

static bo_ssm_layer systems_of(const bo_mixer_layer *desc)
{
    return (bo_ssm_layer){.kind = BO_SSM_DIAGONAL,
                          .channels = desc->width,
                          .size = STATES,
                          .layer = desc->layer,
                          .tokens = desc->tokens,
                          .most_sequences = desc->most_sequences,
                          .source = desc->source};
}

size_t bo_nn_degree_2_mixer_bytes(const bo_mixer_layer *desc)
{
    bo_ssm_layer systems = systems_of(desc);
    return bo_nn_ssm_state_bytes(&systems);
}

bo_value bo_nn_degree_2_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                              const bo_mixer_layer *desc)
{
    static const char *const suffixes[] = {".factors.0", ".factors.1"};
    bo_linear_desc inward = {.out = desc->width, .bias = desc->bias};
    bo_ssm_layer systems = systems_of(desc);
    const size_t heads = desc->heads && desc->width % desc->heads == 0 ? desc->heads : 1;
    bo_value parts[2] = {0};
    (void)positions; /* T knows the distance of tokens */
    bo_nn_linears(graph, prefix, x, 2, suffixes, (bo_linear_desc[]){inward, inward}, parts);
    parts[1] = bo_nn_systems(graph, prefix, parts[1], &systems);
    bo_value y = bo_graph_one(graph, BO_OP_PRODUCT, &(bo_product_attributes){{0}}, 2, parts);
    y = bo_nn_norm(graph, bo_nn_join(prefix, ".norm").text, y,
                   &(bo_norm_layer){.width = desc->width / heads, .epsilon = BO_NN_SOFT});
    return bo_nn_output(graph, bo_nn_join(prefix, ".out_proj").text, y, residual, desc->bias, desc->dropout,
                        bo_nn_stream(desc->layer, 0));
}

/* Degrees 3, 4 and e. */
bo_value bo_nn_degree_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                            const bo_mixer_layer *desc)
{
    bo_attention_layer layer = desc->attention;
    layer.epsilon = BO_NN_SOFT;
    bo_value out = bo_nn_attend(graph, prefix, x, positions, &layer);
    if (desc->kind == BO_MIXER_DEGREE_4) {
        bo_linear_desc factor = {.out = bo_graph_columns(graph, out), .bias = desc->bias};
        bo_value parts[2] = {out, bo_nn_linear(graph, bo_nn_join(prefix, ".f_proj").text, x, &factor)};
        out = bo_graph_one(graph, BO_OP_PRODUCT, &(bo_product_attributes){{0}}, 2, parts);
    }
    return bo_nn_attended(graph, prefix, out, residual, &layer);
}
