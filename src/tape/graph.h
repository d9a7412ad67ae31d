/* Functions of graphs that the library needs beyond <bochner/graph.h>. */
#ifndef BO_TAPE_GRAPH_H
#define BO_TAPE_GRAPH_H

#include "weights.h"

/* bo_graph_apply with attribute structs of this version of the library. */
bo_value bo_graph_one(bo_graph *graph, bo_operation operation, const void *attributes, size_t count,
                      const bo_value *inputs);
const bo_weight *bo_graph_weight_of(const bo_graph *graph, bo_value value); /* NULL: the value is not a weight */
/* Returns the index of the next addition to the residual stream, in the order of recording: 0, 1, … */
size_t bo_graph_branch(bo_graph *graph);
/* The number of recorded operations, and the name of the first operation from index `since` that mixes rows (NULL:
 * none). */
size_t bo_graph_recorded(const bo_graph *graph);
const char *bo_graph_mixes(const bo_graph *graph, size_t since);
/* Marks the weights of the set that this graph reads only where BFLOAT16 and INT8 are supported. `which` has one entry
 * per weight. */
void bo_graph_storable(const bo_graph *graph, bool *which);
/* Runs the graph and recalibrates each attention on its data before it is used (backend.h). These attentions must not
 * be used elsewhere during the call. */
bo_status bo_graph_calibrate(bo_context *context, bo_graph *graph, const bo_graph_pass *pass,
                             const bo_calibrating *calibrating);

#endif
