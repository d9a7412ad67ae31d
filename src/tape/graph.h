/* Reverse-mode differentiation. A graph is recorded once for its shapes, planned once (every tensor gets its place in one
 * arena by its lifetime over forward, recomputation and backward), and run many times; a run allocates nothing.
 *
 *     bo_graph *graph;
 *     bo_graph_create(context, weights, &graph);
 *     bo_value x = bo_graph_input(graph, "tokens", BO_ELEMENT_INT32, n, 1);
 *     bo_value w = bo_graph_weight(graph, &(bo_weight){.name = "embed", .shape = {256, 64}, .rank = 2, ...});
 *     bo_value y = bo_graph_one(graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2, (bo_value[]){x, w});
 *     …
 *     bo_graph_plan(context, graph, &(bo_graph_desc){.loss = loss, .gradients = true, .checkpoint = true});
 *     bo_graph_allocate(context, graph);
 *     bo_graph_write(context, graph, x, tokens);
 *     bo_graph_run(context, graph, &pass);            // forward and, where planned, backward
 *     bo_graph_read(context, graph, loss, &value);
 *
 * Recording never fails in the caller's face: after the first error every call returns no value, and bo_graph_plan
 * reports it, with the scope in which it happened. */
#ifndef BO_TAPE_GRAPH_H
#define BO_TAPE_GRAPH_H

#include "weights.h"

typedef struct bo_graph bo_graph;
typedef uint32_t bo_value; /* a tensor of the graph; 0: none */

bo_status bo_graph_create(bo_context *context, bo_weights *weights, bo_graph **out);
void bo_graph_destroy(bo_graph *graph); /* NULL is fine; the weights stay */

/* ---- recording ---------------------------------------------------------------------------------------------------- */

bo_value bo_graph_input(bo_graph *graph, const char *name, bo_element element, size_t rows, size_t columns);
bo_value bo_graph_weight(bo_graph *graph, const bo_weight *desc);
/* Attributes are copied. outputs has room for what the operation makes. */
void bo_graph_apply(bo_graph *graph, bo_op_kind op, const void *attributes, size_t count, const bo_value *inputs,
                    bo_value *outputs);
bo_value bo_graph_one(bo_graph *graph, bo_op_kind op, const void *attributes, size_t count, const bo_value *inputs);
size_t bo_graph_rows(const bo_graph *graph, bo_value value); /* 0 for no value */
size_t bo_graph_columns(const bo_graph *graph, bo_value value);

bo_weights *bo_graph_weights(const bo_graph *graph);
const bo_weight *bo_graph_weight_of(const bo_graph *graph, bo_value value); /* NULL: the value is no weight */
/* Numbers the additions to the residual stream in the order in which they are recorded: 0, 1, … */
size_t bo_graph_branch(bo_graph *graph);

/* Which weights of the set this graph reads only where BFLOAT16 and INT8 would do; `which` has room for all. */
void bo_graph_storable(const bo_graph *graph, bool *which);

/* Names for messages: what is recorded until the next call belongs to this scope ("layer 3 attention"). */
void bo_graph_scope(bo_graph *graph, const char *format, ...) BO_PRINTF(2, 3);
/* What is recorded between the two may be forgotten after forward and computed again before backward. No nesting. */
void bo_graph_segment_begin(bo_graph *graph);
void bo_graph_segment_end(bo_graph *graph);
/* Is still there after a run, to be read. Inputs and the loss are anyway. */
void bo_graph_keep(bo_graph *graph, bo_value value);

/* ---- planning ------------------------------------------------------------------------------------------------------ */

typedef struct bo_graph_desc {
    bo_value loss;   /* 1 x 1; needed for gradients */
    bool gradients;  /* of the weights that are not frozen; added to what their gradients hold */
    bool checkpoint; /* segments are computed again instead of kept */
    /* Values that wait from forward for backward wait rounded to bfloat16, in half the bytes. Forward's results are the
     * same to the bit; gradients are those of values off by at most 2^-8 of their size. */
    bool bfloat16;
} bo_graph_desc;

bo_status bo_graph_plan(bo_context *context, bo_graph *graph, const bo_graph_desc *desc);
size_t bo_graph_bytes(const bo_graph *graph);      /* of the arena, after planning: known before it is spent */
double bo_graph_operations(const bo_graph *graph); /* useful ones of a run; recomputation does not count */
/* The weights must have memory by now. */
bo_status bo_graph_allocate(bo_context *context, bo_graph *graph);

/* ---- running ------------------------------------------------------------------------------------------------------- */

/* All of the value: rows x columns elements of the host. */
bo_status bo_graph_write(bo_context *context, bo_graph *graph, bo_value value, const void *host);
bo_status bo_graph_read(bo_context *context, bo_graph *graph, bo_value value, void *host);
/* The loss's gradient, in units of the gradient scale of the weights' rules: 1 unless set; 1/k for each of k micro-batches
 * that share a step. */
void bo_graph_loss_scale(bo_graph *graph, float scale);
/* A message begins with the scope. Operations that meet NaN or infinity may refuse them (BO_NUMERIC). */
bo_status bo_graph_run(bo_context *context, bo_graph *graph, const bo_pass *pass);
/* The same run, in which attention also sees its data and is drawn anew before it is used (backend.h). Nobody else may be using
 * these attentions meanwhile. */
bo_status bo_graph_calibrate(bo_context *context, bo_graph *graph, const bo_pass *pass,
                             const bo_calibrating *calibrating);
/* Forward once more, looking at every tensor: *scope of the first that is not finite (of an input or a weight: its name),
 * or NULL; frozen weights are left to those who read them. States of the pass go on, nothing else moves. */
bo_status bo_graph_blame(bo_context *context, bo_graph *graph, const bo_pass *pass, const char **scope);

#endif
