/* Mixers whose weights do not depend on the tokens: an MLP along the tokens of a window, and a convolution. Both stand between
 * a projection and a gate: y = out_proj(mixed(x V) ∘ silu(x G)).
 *
 *     in_proj, gate_proj, out_proj      projections
 *     first, second                     heads · context x context: the matrices of the MLP
 *     kernel                            width x kernel */
#include "../backend/shapes.h"
#include "internal.h"

/* x V and x G. */
static void project(bo_graph *graph, const char *prefix, bo_value x, const bo_mixer_layer *desc, bo_value out[2])
{
    static const char *const suffixes[] = {".gate_proj", ".in_proj"};
    bo_linear_desc inward = {.out = desc->width, .bias = desc->bias}, both[2] = {inward, inward};
    bo_nn_linears(graph, prefix, x, 2, suffixes, both, out);
}

static bo_value finish(bo_graph *graph, const char *prefix, bo_value gate, bo_value mixed, bo_value residual,
                       const bo_mixer_layer *desc)
{
    bo_unary_attributes silu = {.function = BO_UNARY_SILU, .factor = bo_nn_unit_factor(graph, BO_UNARY_SILU)};
    bo_value y = bo_graph_one(graph, BO_OP_GLU, &silu, 2, (bo_value[]){gate, mixed});
    return bo_nn_output(graph, bo_nn_join(prefix, ".out_proj").text, y, residual, desc->bias, desc->dropout,
                        bo_nn_stream(desc->layer, 0));
}

static bo_sequences sequences_of(const bo_mixer_layer *desc, size_t offset)
{
    return (bo_sequences){.tokens = desc->tokens,
                          .most_sequences = desc->most_sequences,
                          .layer = desc->layer,
                          .offset = offset,
                          .source = desc->source};
}

/* ---- MLP along tokens (2105.01601), causal ----------------------------------------------------------------------------- */

/* The memory of one of the two products, so padded that the other's may follow. */
static size_t product_bytes(const bo_mixer_layer *desc)
{
    return (bo_mix_state_bytes(desc->width, desc->context) + 63) / 64 * 64;
}

/* Heads begin as delays: head i takes the token i `apart` places before, so that the recent past is there to be weighed. */
static bo_value along_tokens(bo_graph *graph, const char *prefix, const char *suffix, bo_value x,
                             const bo_mixer_layer *desc, double apart, size_t offset)
{
    bo_mix_attributes attributes = {.sequences = sequences_of(desc, offset), .heads = desc->heads, .causal = true};
    size_t shape[3] = {desc->heads, desc->context, desc->context};
    bo_init delays = {.law = BO_INIT_IDENTITY, .a = (double)desc->context, .b = apart};
    bo_value matrix = bo_nn_parameter(graph, prefix, suffix, 3, shape, delays);
    return bo_graph_one(graph, BO_OP_MIX, &attributes, 2, (bo_value[]){x, matrix});
}

bo_value bo_nn_mix_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                         const bo_mixer_layer *desc)
{
    (void)positions;
    bo_value parts[2] = {0};
    project(graph, prefix, x, desc, parts);
    bo_value hidden = along_tokens(graph, prefix, ".first", parts[1], desc, 1, 0);
    hidden = bo_nn_unary(graph, hidden, BO_UNARY_GELU, bo_nn_unit_factor(graph, BO_UNARY_GELU), 0);
    bo_value mixed = along_tokens(graph, prefix, ".second", hidden, desc, 0, product_bytes(desc));
    return finish(graph, prefix, parts[0], mixed, residual, desc);
}

size_t bo_nn_mix_mixer_bytes(const bo_mixer_layer *desc)
{
    return 2 * product_bytes(desc);
}

/* ---- convolution ------------------------------------------------------------------------------------------------------ */

enum { DELAYS = 8 }; /* that channels begin with, one each */

static bo_convolution_attributes convolution_of(const bo_mixer_layer *desc)
{
    return (bo_convolution_attributes){.windows = {.kernel = {1, desc->kernel}, .before = {0, desc->kernel - 1}},
                                       .groups = desc->width,
                                       .sequences = sequences_of(desc, 0)};
}

bo_value bo_nn_convolution_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                                 const bo_mixer_layer *desc)
{
    (void)positions;
    bo_convolution_attributes attributes = convolution_of(desc);
    size_t shape[2] = {desc->width, desc->kernel};
    bo_init init = {.law = BO_INIT_DELAYS, .a = (double)(desc->kernel < DELAYS ? desc->kernel : DELAYS)};
    bo_value parts[2] = {0};
    project(graph, prefix, x, desc, parts);
    bo_value kernel = bo_nn_parameter(graph, prefix, ".kernel", 2, shape, init);
    bo_value mixed = bo_graph_one(graph, BO_OP_CONVOLUTION, &attributes, 2, (bo_value[]){parts[1], kernel});
    return finish(graph, prefix, parts[0], mixed, residual, desc);
}

size_t bo_nn_convolution_mixer_bytes(const bo_mixer_layer *desc)
{
    bo_convolution_attributes attributes = convolution_of(desc);
    return bo_convolution_state_bytes(&attributes, desc->width);
}
