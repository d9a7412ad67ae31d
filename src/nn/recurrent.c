/* Recurrent layers: one product projects all tokens, then the cell goes through time.
 *
 *     in_proj.weight      g h x in       recurrent.weight   U (g h x h)
 *     bias.0, bias.1, …   of each gate, in the order of bo_recurrent_attributes */
#include <math.h>
#include "../backend/shapes.h"
#include "internal.h"

enum { MOST_GATES = 4, FORGET = 1 };

/* Forget gates begin open, or gradients vanish within some tokens (Jozefowicz 2015). */
static bo_value biases(bo_graph *graph, const char *prefix, const bo_recurrent_layer *desc)
{
    static const char *const suffixes[MOST_GATES] = {".bias.0", ".bias.1", ".bias.2", ".bias.3"};
    size_t gates = bo_recurrent_gates(desc->cell);
    bo_value parts[MOST_GATES];
    for (size_t i = 0; i < gates; i++) {
        bool forgets = desc->cell == BO_RECURRENCE_LSTM && i == FORGET;
        bo_init init = {.law = forgets ? BO_INIT_ONE : BO_INIT_ZERO};
        parts[i] = bo_nn_vector(graph, prefix, suffixes[i], desc->size, init);
    }
    return gates == 1 ? parts[0] : bo_nn_concat(graph, gates, parts);
}

static bo_value recurrent_matrix(bo_graph *graph, const char *prefix, const bo_recurrent_layer *desc)
{
    bo_nn_name name = bo_nn_join(prefix, ".recurrent.weight");
    return bo_graph_weight(
        graph, &(bo_weight){.name = name.text,
                            .rank = 2,
                            .shape = {bo_recurrent_gates(desc->cell) * desc->size, desc->size},
                            .init = {.law = BO_INIT_NORMAL, .b = 1 / sqrt((double)(desc->size ? desc->size : 1))}});
}

bo_value bo_nn_recurrent(bo_graph *graph, const char *prefix, bo_value x, const bo_recurrent_layer *desc)
{
    bo_linear_desc inward = {.out = bo_recurrent_gates(desc->cell) * desc->size};
    bo_recurrent_attributes attributes = {.cell = desc->cell,
                                          .sequences = {.tokens = desc->tokens,
                                                        .most_sequences = desc->most_sequences,
                                                        .layer = desc->layer,
                                                        .source = desc->source}};
    bo_value inputs[3] = {bo_nn_linear(graph, bo_nn_join(prefix, ".in_proj").text, x, &inward),
                          recurrent_matrix(graph, prefix, desc), biases(graph, prefix, desc)};
    return bo_graph_one(graph, BO_OP_RECURRENT, &attributes, 3, inputs);
}

size_t bo_nn_recurrent_state_bytes(const bo_recurrent_layer *desc)
{
    return bo_recurrent_state_bytes(desc->cell, desc->size);
}

/* ---- as a mixer ------------------------------------------------------------------------------------------------------ */

static bo_recurrent_layer layer_of(const bo_mixer_layer *desc)
{
    return (bo_recurrent_layer){.cell = desc->kind == BO_MIXER_RNN   ? BO_RECURRENCE_RNN
                                        : desc->kind == BO_MIXER_GRU ? BO_RECURRENCE_GRU
                                                                     : BO_RECURRENCE_LSTM,
                                .size = desc->width,
                                .layer = desc->layer,
                                .tokens = desc->tokens,
                                .most_sequences = desc->most_sequences,
                                .source = desc->source};
}

bo_value bo_nn_recurrent_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                               const bo_mixer_layer *desc)
{
    (void)positions;
    bo_recurrent_layer layer = layer_of(desc);
    bo_value hidden = bo_nn_recurrent(graph, prefix, x, &layer);
    return bo_nn_output(graph, bo_nn_join(prefix, ".out_proj").text, hidden, residual, desc->bias, desc->dropout,
                        bo_nn_stream(desc->layer, 0));
}

size_t bo_nn_recurrent_mixer_bytes(const bo_mixer_layer *desc)
{
    bo_recurrent_layer layer = layer_of(desc);
    return bo_nn_recurrent_state_bytes(&layer);
}
