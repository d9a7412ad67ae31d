/* Mixers whose output is a polynomial of the tokens X (rows) of a sequence, up to norms. The layer X Π (W_k Xᵀ) fits together
 * as written for some degrees only; what stands for it, all of it causal:
 *   2   (X W_1) ∘ (T X W_2)            T a decaying mean of each channel, learned, that does not look at X
 *   3   (X W_q W_kᵀ Xᵀ) X W_v          linear attention without features and without a normaliser
 *   4   that, ∘ (X W_3)
 *   e   |X W_q W_kᵀ Xᵀ|^p X W_v        with 2p + 1 = e, weights divided by their sum
 * Heads have their own W; each head's output is normalised and all are projected and added to the residual. 3 and e are
 * attention and nothing else. */
#include "internal.h"

#define E 2.71828182845904523536

void bo_nn_mixer_attention(bo_mixer kind, bo_attention_desc *out)
{
    *out = (bo_attention_desc){.kind = BO_ATTENTION_LINEAR,
                               .normaliser = BO_NORMALISER_NONE,
                               .causal = true,
                               .features = {.kernel = BO_KERNEL_LINEAR}};
    if (kind == BO_MIXER_DEGREE_E)
        *out = (bo_attention_desc){.kind = BO_ATTENTION_POWER, .power = (E - 1) / 2, .causal = true};
}

bo_value bo_nn_degree_4_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                              const bo_mixer_layer *desc)
{
    bo_value out = bo_nn_attend(graph, prefix, x, positions, &desc->attention);
    bo_linear_desc factor = {.out = bo_graph_columns(graph, out), .bias = desc->bias};
    bo_value parts[2] = {out, bo_nn_linear(graph, bo_nn_join(prefix, ".f_proj").text, x, &factor)};
    out = bo_graph_one(graph, BO_OP_PRODUCT, &(bo_product_attributes){{0}}, 2, parts);
    return bo_nn_attended(graph, prefix, out, residual, &desc->attention);
}
