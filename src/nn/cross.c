/* Cross attention: the target attends to its source. In training, queries, keys and values are in one graph. In
 * decoding, a source is read once into states, which every step then uses. */
#include "internal.h"

static bo_attention_layer without_positions(const bo_attention_layer *desc)
{
    bo_attention_layer layer = *desc;
    layer.positions = BO_POSITIONS_NONE;
    return layer;
}

bo_value bo_nn_cross(bo_graph *graph, const char *prefix, bo_value x, bo_value keys, bo_value residual,
                     const bo_attention_layer *desc)
{
    bo_attention_layer layer = without_positions(desc);
    bo_value out = bo_nn_ask(graph, prefix, &(bo_asking){.x = x, .keys = keys}, &layer);
    return bo_nn_attended(graph, prefix, out, residual, &layer);
}

void bo_nn_cross_read(bo_graph *graph, const char *prefix, bo_value queries, bo_value keys,
                      const bo_attention_layer *desc)
{
    bo_attention_layer layer = without_positions(desc);
    bo_nn_ask(graph, prefix, &(bo_asking){.q = queries, .keys = keys}, &layer);
}
