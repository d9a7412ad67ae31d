/* Functions of graphs that the library needs beyond <bochner/graph.h>. */
#ifndef BO_TAPE_GRAPH_H
#define BO_TAPE_GRAPH_H

#include "weights.h"

/* BO_REQUIRE for functions that record: returns 0, and the graph keeps the error for bo_graph_compile(). */
#define BO_RECORD_REQUIRE(graph, ...) BO_RECORD_REQUIRE_IF(graph, true, __VA_ARGS__)
#define BO_RECORD_REQUIRE_IF(graph, condition, ...)                                                                    \
    do {                                                                                                               \
        const void *const bo_required_[] = {__VA_ARGS__};                                                              \
        if (!(graph) || ((condition) && bo_any_null(bo_required_, sizeof bo_required_ / sizeof *bo_required_)))        \
            return bo_graph_refuse_null(graph, __func__, #__VA_ARGS__, bo_required_);                                  \
    } while (0)
bo_value bo_graph_refuse_null(bo_graph *graph, const char *function, const char *names, const void *const *pointers);

/* bo_graph_apply with attribute structs of this version of the library. */
bo_value bo_graph_one(bo_graph *graph, bo_operation operation, const void *attributes, size_t count,
                      const bo_value *inputs);
const bo_weight *bo_graph_weight_of(const bo_graph *graph, bo_value value); /* NULL: the value is not a weight */
/* Returns the index of the next addition to the residual stream, in the order of recording: 0, 1, … */
size_t bo_graph_branch(bo_graph *graph);
void bo_graph_restart_branches(bo_graph *graph); /* for a second residual stream: the next index is 0 again */
/* Disables or enables adapters for layers that are recorded afterwards. */
void bo_graph_set_plain(bo_graph *graph, bool plain);
bool bo_graph_is_plain(const bo_graph *graph);
/* The number of recorded operations, and the name of the first operation from index `since` that mixes rows (NULL:
 * none). */
size_t bo_graph_recorded(const bo_graph *graph);
const char *bo_graph_mixes(const bo_graph *graph, size_t since);
/* Sets the error of the graph to the status and the message that a library function has returned. */
bo_value bo_graph_set_error(bo_graph *graph, bo_status status);
/* Marks the weights of the set that may be stored as BFLOAT16, INT8 or INT4: all operations that read them support it.
 * `mask` has one entry per weight. */
void bo_graph_storable(const bo_graph *graph, bool *mask);
/* Returns the error of a recording, for a graph that only declares weights and is not compiled. */
bo_status bo_graph_check(bo_context *context, const bo_graph *graph);
/* Returns the context of a recording. */
bo_context *bo_graph_context(const bo_graph *graph);
/* Runs the graph and recalibrates each attention on its data before it is used (backend.h). The attentions must not be
 * used elsewhere during the call. */
bo_status bo_graph_calibrate(bo_context *context, bo_graph *graph, const bo_graph_pass *pass,
                             const bo_calibrating *calibrating);

/* Reads the argmax of each row of a kept value, without transferring the value. */
bo_status bo_graph_read_largest(bo_context *context, bo_graph *graph, bo_value value, int32_t *out);

/* Runs the operations before the first gradient. Skips a loss that is computed together with its gradient. */
bo_status bo_graph_forward(bo_context *context, bo_graph *graph, const bo_graph_pass *pass);

#endif
