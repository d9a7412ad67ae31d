/* Mixers other than attention, and the table of all kinds: the function that records each, and the size of its
 * state. */
#include <math.h>
#include "../backend/shapes.h"
#include "internal.h"

/* ====================================================================================================================
 * Recurrent layers: one product projects all tokens, then the cell runs over time.
 *
 *     in_proj.weight      g h x in       recurrent.weight   U (g h x h)
 *     bias.0, bias.1, …   of each gate, in the order of bo_recurrent_attributes */

enum { MAX_GATES = 4, FORGET = 1 };

/* Forget gates start open, since otherwise gradients vanish within a few tokens (Jozefowicz 2015). */
static bo_value biases(bo_graph *graph, const char *prefix, const bo_recurrent_layer *desc)
{
    static const char *const suffixes[MAX_GATES] = {".bias.0", ".bias.1", ".bias.2", ".bias.3"};
    size_t gates = bo_recurrent_gates(desc->cell);
    bo_value parts[MAX_GATES];
    for (size_t i = 0; i < gates; i++) {
        bool forgets = desc->cell == BO_RECURRENCE_LSTM && i == FORGET;
        bo_weight_init init = {.kind = forgets ? BO_WEIGHT_INIT_KIND_ONE : BO_WEIGHT_INIT_KIND_ZERO};
        parts[i] = bo_nn_vector(graph, prefix, suffixes[i], desc->size, init);
    }
    return gates == 1 ? parts[0] : bo_graph_concat(graph, gates, parts);
}

static bo_value recurrent_matrix(bo_graph *graph, const char *prefix, const bo_recurrent_layer *desc)
{
    bo_nn_name name = bo_nn_join(prefix, ".recurrent.weight");
    return bo_graph_weight(
        graph, &(bo_weight_desc){
                   .name = name.text,
                   .rank = 2,
                   .shape = (size_t[]){bo_recurrent_gates(desc->cell) * desc->size, desc->size},
                   .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1 / sqrt((double)(desc->size ? desc->size : 1))}});
}

bo_value bo_nn_recurrent(bo_graph *graph, const char *prefix, bo_value x, const bo_recurrent_layer *desc)
{
    bo_linear_layer inward = {.out = bo_recurrent_gates(desc->cell) * desc->size};
    bo_recurrent_attributes attributes = {.cell = desc->cell,
                                          .sequences = {.tokens = desc->tokens,
                                                        .max_sequences = desc->max_sequences,
                                                        .layer = desc->layer,
                                                        .source = desc->source}};
    bo_value inputs[3] = {bo_nn_linear(graph, bo_nn_join(prefix, ".in_proj").text, x, &inward),
                          recurrent_matrix(graph, prefix, desc), biases(graph, prefix, desc)};
    return bo_graph_one(graph, BO_OPERATION_RECURRENT, &attributes, 3, inputs);
}

/* Returns the bytes of the state of one sequence. */
static size_t recurrent_state_bytes(const bo_recurrent_layer *desc)
{
    return bo_recurrent_state_bytes(desc->cell, desc->size);
}

/* ---- use as a mixer ---------------------------------------------------------------------------------------------- */

static bo_recurrent_layer layer_of(const bo_branch *desc)
{
    return (bo_recurrent_layer){.cell = desc->block->mixer == BO_MIXER_RNN   ? BO_RECURRENCE_RNN
                                        : desc->block->mixer == BO_MIXER_GRU ? BO_RECURRENCE_GRU
                                                                             : BO_RECURRENCE_LSTM,
                                .size = desc->width,
                                .layer = desc->layer,
                                .tokens = desc->tokens,
                                .max_sequences = desc->max_sequences,
                                .source = desc->source};
}

static bo_value recurrent_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                                const bo_branch *desc)
{
    (void)positions;
    bo_recurrent_layer layer = layer_of(desc);
    bo_value hidden = bo_nn_recurrent(graph, prefix, x, &layer);
    return bo_nn_output(graph, bo_nn_join(prefix, ".out_proj").text, hidden, residual,
                        &(bo_output_layer){.bias = desc->block->bias,
                                           .dropout = desc->dropout,
                                           .stream = bo_nn_stream(desc->layer, 0)});
}

static size_t recurrent_mixer_bytes(const bo_branch *desc)
{
    bo_recurrent_layer layer = layer_of(desc);
    return recurrent_state_bytes(&layer);
}

/* ====================================================================================================================
 * Mixers whose weights do not depend on the tokens: an MLP along the tokens of a window, and a convolution. Both are
 * between a projection and a gate: y = out_proj(mixed(x V) ∘ silu(x G)).
 *
 *     in_proj, gate_proj, out_proj      projections
 *     first, second                     heads · context x context: the matrices of the MLP
 *     kernel                            width x kernel */

/* Computes x V and x G. */
static void project(bo_graph *graph, const char *prefix, bo_value x, const bo_branch *desc, bo_value out[2])
{
    static const char *const suffixes[] = {".gate_proj", ".in_proj"};
    bo_linear_layer inward = {.out = desc->width, .bias = desc->block->bias}, both[2] = {inward, inward};
    bo_nn_linears(graph, prefix, x, 2, suffixes, both, out);
}

static bo_value finish(bo_graph *graph, const char *prefix, bo_value gate, bo_value mixed, bo_value residual,
                       const bo_branch *desc)
{
    bo_unary_attributes silu = {.function = BO_UNARY_SILU, .factor = bo_nn_unit_factor(graph, BO_UNARY_SILU)};
    bo_value y = bo_graph_one(graph, BO_OPERATION_GLU, &silu, 2, (bo_value[]){gate, mixed});
    return bo_nn_output(graph, bo_nn_join(prefix, ".out_proj").text, y, residual,
                        &(bo_output_layer){.bias = desc->block->bias,
                                           .dropout = desc->dropout,
                                           .stream = bo_nn_stream(desc->layer, 0)});
}

static bo_sequences sequences_of(const bo_branch *desc, size_t offset)
{
    return (bo_sequences){.tokens = desc->tokens,
                          .max_sequences = desc->max_sequences,
                          .layer = desc->layer,
                          .offset = offset,
                          .source = desc->source};
}

/* ---- MLP along the tokens (2105.01601), causal ------------------------------------------------------------------- */

/* Returns the bytes of the state of one of the two products, padded so that the state of the other can follow. */
static size_t product_bytes(const bo_branch *desc)
{
    return bo_padded_bytes(bo_mix_state_bytes(desc->width, desc->context));
}

/* Heads start as delays: head i reads the token i · `apart` positions earlier, so that recent tokens are available
 * initially. */
static bo_value along_tokens(bo_graph *graph, const char *prefix, const char *suffix, bo_value x, const bo_branch *desc,
                             double apart, size_t offset)
{
    bo_mix_attributes attributes = {
        .sequences = sequences_of(desc, offset), .heads = desc->block->heads, .causal = true};
    size_t shape[3] = {desc->block->heads, desc->context, desc->context};
    bo_weight_init delays = {.kind = BO_WEIGHT_INIT_KIND_IDENTITY, .a = (double)desc->context, .b = apart};
    bo_value matrix = bo_nn_parameter(graph, prefix, suffix, 3, shape, delays);
    return bo_graph_one(graph, BO_OPERATION_MIX, &attributes, 2, (bo_value[]){x, matrix});
}

static bo_value mlp_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                          const bo_branch *desc)
{
    (void)positions;
    bo_value parts[2] = {0};
    project(graph, prefix, x, desc, parts);
    bo_value hidden = along_tokens(graph, prefix, ".first", parts[1], desc, 1, 0);
    hidden = bo_nn_unary(graph, hidden, BO_UNARY_GELU, bo_nn_unit_factor(graph, BO_UNARY_GELU), 0);
    bo_value mixed = along_tokens(graph, prefix, ".second", hidden, desc, 0, product_bytes(desc));
    return finish(graph, prefix, parts[0], mixed, residual, desc);
}

static size_t mlp_mixer_bytes(const bo_branch *desc)
{
    return 2 * product_bytes(desc);
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

enum { DELAYS = 8 }; /* initial delays, one per channel */

static bo_convolution_attributes convolution_of(const bo_branch *desc)
{
    return (bo_convolution_attributes){
        .windows = {.width = {.kernel = desc->block->kernel, .before = desc->block->kernel - 1}},
        .groups = desc->width,
        .sequences = sequences_of(desc, 0)};
}

static bo_value convolution_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual,
                                  bo_value positions, const bo_branch *desc)
{
    (void)positions;
    bo_convolution_attributes attributes = convolution_of(desc);
    size_t shape[2] = {desc->width, desc->block->kernel};
    bo_weight_init init = {.kind = BO_WEIGHT_INIT_KIND_DELAYS,
                           .a = (double)(desc->block->kernel < DELAYS ? desc->block->kernel : DELAYS)};
    bo_value parts[2] = {0};
    project(graph, prefix, x, desc, parts);
    bo_value kernel = bo_nn_parameter(graph, prefix, ".kernel", 2, shape, init);
    bo_value mixed = bo_graph_one(graph, BO_OPERATION_CONVOLUTION, &attributes, 2, (bo_value[]){parts[1], kernel});
    return finish(graph, prefix, parts[0], mixed, residual, desc);
}

/* Returns the bytes of the state of one sequence. */
static size_t convolution_mixer_bytes(const bo_branch *desc)
{
    bo_convolution_attributes attributes = convolution_of(desc);
    return bo_convolution_state_bytes(&attributes, desc->width);
}

/* ====================================================================================================================
 * Mixers whose output is a polynomial of the tokens X (rows) of a sequence, up to norms. The layer X Π (W_k Xᵀ) has
 * matching dimensions for some degrees only. These causal layers are used instead:
 *   2   (X W_1) ∘ (T X W_2)            T: a learned, decaying mean per channel that does not depend on X
 *   3   (X W_q W_kᵀ Xᵀ) X W_v          linear attention without features and without a normalizer
 *   4   the same, ∘ (X W_3)
 *   e   u ∘ v ∘ (u² + v²)^((e - 2)/2)  of the factors u, v of 2 (bo_nn_between); its state is that of 2
 * Each head has its own W. The output of each head is normalized; all are projected and added to the residual
 * stream. 3 and 4 use the attention that bo_nn_mixer_attention describes. */

bo_attention_desc bo_nn_mixer_attention(void)
{
    return (bo_attention_desc){.kind = BO_ATTENTION_LINEAR,
                               .normalizer = BO_NORMALIZER_NONE,
                               .causal = true,
                               .features = {.kernel = BO_KERNEL_LINEAR}};
}

enum { STATES = 4 }; /* number of decays that T mixes per channel */

static bo_ssm_layer systems_of(const bo_branch *desc)
{
    return (bo_ssm_layer){.kind = BO_SSM_DIAGONAL,
                          .channels = desc->width,
                          .size = STATES,
                          .layer = desc->layer,
                          .tokens = desc->tokens,
                          .max_sequences = desc->max_sequences,
                          .source = desc->source};
}

static size_t systems_bytes(const bo_branch *desc)
{
    bo_ssm_layer systems = systems_of(desc);
    return bo_nn_ssm_state_bytes(&systems);
}

/* Degrees 2 and e. T depends on the distance of tokens, so that positions are not needed. */
static bo_value systems_product(bo_graph *graph, const char *prefix, bo_value x, const bo_branch *desc)
{
    static const char *const suffixes[] = {".factors.0", ".factors.1"};
    bo_linear_layer inward = {.out = desc->width, .bias = desc->block->bias};
    bo_ssm_layer systems = systems_of(desc);
    bo_value parts[2] = {0};
    bo_nn_linears(graph, prefix, x, 2, suffixes, (bo_linear_layer[]){inward, inward}, parts);
    parts[1] = bo_nn_systems(graph, prefix, parts[1], &systems);
    if (desc->block->mixer == BO_MIXER_DEGREE_E) return bo_nn_between(graph, parts);
    return bo_graph_one(graph, BO_OPERATION_PRODUCT, NULL, 2, parts);
}

/* Degrees 3 and 4. */
static bo_value attention_product(bo_graph *graph, const char *prefix, bo_value x, bo_value positions,
                                  const bo_branch *desc)
{
    bo_value out = bo_nn_attend(graph, prefix, x, positions, desc);
    if (desc->block->mixer == BO_MIXER_DEGREE_3) return out;
    bo_linear_layer factor = {.out = bo_graph_columns(graph, out), .bias = desc->block->bias};
    bo_value parts[2] = {out, bo_nn_linear(graph, bo_nn_join(prefix, ".f_proj").text, x, &factor)};
    return bo_graph_one(graph, BO_OPERATION_PRODUCT, NULL, 2, parts);
}

bo_value bo_nn_mixer_product(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, const bo_branch *desc)
{
    if (bo_nn_mixer_attends(desc->block->mixer)) return attention_product(graph, prefix, x, positions, desc);
    return systems_product(graph, prefix, x, desc);
}

bo_value bo_nn_mixer_degree(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, const bo_branch *desc)
{
    const bool attends = bo_nn_mixer_attends(desc->block->mixer);
    const size_t heads = desc->block->heads && desc->width % desc->block->heads == 0 ? desc->block->heads : 1;
    bo_value y = bo_nn_mixer_product(graph, prefix, x, positions, desc);
    if (!attends) return bo_nn_soft_norm(graph, bo_nn_join(prefix, ".norm").text, y, desc->width / heads);
    if (desc->block->output_norm != BO_CHOICE_YES) return y;
    return bo_nn_soft_norm(graph, bo_nn_join(prefix, ".o_norm").text, y,
                           bo_attention_describe(desc->attention)->value_dim);
}

static bo_value degree_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                             const bo_branch *desc)
{
    const char *suffix = bo_nn_mixer_attends(desc->block->mixer) ? ".o_proj" : ".out_proj";
    return bo_nn_output(
        graph, bo_nn_join(prefix, suffix).text, bo_nn_mixer_degree(graph, prefix, x, positions, desc), residual,
        &(bo_output_layer){
            .bias = desc->block->bias, .dropout = desc->dropout, .stream = bo_nn_stream(desc->layer, 0)});
}

/* ====================================================================================================================
 * Mixers of any kind: the function that records each, and the size of its state. */

static bo_value attend(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                       const bo_branch *desc)
{
    return bo_nn_attended(graph, prefix, bo_nn_attend(graph, prefix, x, positions, desc), residual, desc);
}

/* `state_bytes` is NULL for attention, which has its own function. */
static const struct {
    bo_value (*record)(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                       const bo_branch *desc);
    size_t (*state_bytes)(const bo_branch *desc);
} kinds[BO_MIXER_COUNT] = {
    [BO_MIXER_ATTENTION] = {attend, NULL},
    [BO_MIXER_MLP] = {mlp_mixer, mlp_mixer_bytes},
    [BO_MIXER_CONV] = {convolution_mixer, convolution_mixer_bytes},
    [BO_MIXER_RNN] = {recurrent_mixer, recurrent_mixer_bytes},
    [BO_MIXER_GRU] = {recurrent_mixer, recurrent_mixer_bytes},
    [BO_MIXER_LSTM] = {recurrent_mixer, recurrent_mixer_bytes},
    [BO_MIXER_SSM] = {bo_nn_ssm_mixer, bo_nn_ssm_mixer_bytes},
    [BO_MIXER_DEGREE_2] = {degree_mixer, systems_bytes},
    [BO_MIXER_DEGREE_3] = {degree_mixer, NULL},
    [BO_MIXER_DEGREE_4] = {degree_mixer, NULL},
    [BO_MIXER_DEGREE_E] = {degree_mixer, systems_bytes},
};

bool bo_nn_mixer_attends(bo_mixer kind)
{
    return !kinds[kind].state_bytes;
}

size_t bo_nn_mixer_state_bytes(const bo_branch *desc)
{
    if (bo_nn_mixer_attends(desc->block->mixer)) return bo_attention_state_bytes(desc->attention);
    return kinds[desc->block->mixer].state_bytes(desc);
}

bo_value bo_nn_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                     const bo_branch *desc)
{
    return kinds[desc->block->mixer].record(graph, prefix, x, residual, positions, desc);
}
