/* Cross attention: the target attends to its source. In training, queries, keys and values are in one graph. In
 * decoding, a source is read once into states, which every step then uses. */
#include "internal.h"

bo_value bo_nn_cross(bo_graph *graph, const char *prefix, bo_value x, bo_value keys, bo_value residual,
                     const bo_branch *desc)
{
    bo_value out = bo_nn_attend_from(graph, prefix, &(bo_attend_inputs){.x = x, .keys = keys}, desc);
    return bo_nn_attended(graph, prefix, out, residual, desc);
}

void bo_nn_cross_read(bo_graph *graph, const char *prefix, bo_value queries, bo_value keys, const bo_branch *desc)
{
    bo_nn_attend_from(graph, prefix, &(bo_attend_inputs){.q = queries, .keys = keys}, desc);
}
