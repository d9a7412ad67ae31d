/* What the library needs of a graph beyond <bochner/graph.h>. */
#ifndef BO_TAPE_GRAPH_H
#define BO_TAPE_GRAPH_H

#include "weights.h"

/* bo_graph_apply with the struct of attributes that this library has. */
bo_value bo_graph_one(bo_graph *graph, bo_operation operation, const void *attributes, size_t count,
                      const bo_value *inputs);
const bo_weight *bo_graph_weight_of(const bo_graph *graph, bo_value value); /* NULL: the value is no weight */
/* Numbers the additions to the residual stream in the order in which they are recorded: 0, 1, … */
size_t bo_graph_branch(bo_graph *graph);
/* How many operations are recorded; the name of the first from `since` on through which rows see each other, NULL: none. */
size_t bo_graph_recorded(const bo_graph *graph);
const char *bo_graph_mixes(const bo_graph *graph, size_t since);
/* Which weights of the set this graph reads only where BFLOAT16 and INT8 would do; `which` has room for all. */
void bo_graph_storable(const bo_graph *graph, bool *which);
/* A run in which attention also sees its data and is drawn anew before it is used (backend.h). Nobody else may be using
 * these attentions meanwhile. */
bo_status bo_graph_calibrate(bo_context *context, bo_graph *graph, const bo_graph_pass *pass,
                             const bo_calibrating *calibrating);

#endif
