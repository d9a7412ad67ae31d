/* A custom graph with its weights: it writes numbers, reads numbers and gradients, and finds weights by name.
 *
 *     lab_tape tape;
 *     lab_tape_open(context, &tape);
 *     bo_value x = lab_tape_leaf(&tape, "x", rows, columns);
 *     lab_tape_plan(&tape, lab_pool(tape.graph, x, BO_POOL_KIND_MAX, &windows), seed);
 *     lab_tape_write(&tape, "x", numbers);
 *     lab_tape_write(&tape, LAB_ARRIVING, gradient);
 *     lab_tape_run(&tape, NULL);
 *     lab_tape_gradient(&tape, "x", out);
 *     lab_tape_close(&tape);
 *
 * Leaves are weights, so that gradients reach them. The weights that layers declare are available under their names. */
#ifndef BO_LAB_TOOLS_TAPE_H
#define BO_LAB_TOOLS_TAPE_H

#include "../measurement.h"
#include "layers.h"
#include <bochner/graph.h>

/* Invariant: closing is safe after lab_tape_open, even if a call failed, and for a zeroed structure. */
typedef struct lab_tape {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value output; /* set by lab_tape_plan */
} lab_tape;

/* The weight that holds the gradient arriving at the output, with the same number of elements; initially ones. */
#define LAB_ARRIVING "arriving"

bo_status lab_tape_open(bo_context *context, lab_tape *out);
void lab_tape_close(lab_tape *tape);
bo_value lab_tape_leaf(lab_tape *tape, const char *name, size_t rows, size_t columns); /* initially zeros */
/* Allocates memory; the weights of layers are drawn from `seed`. Gradients are those of the loss, a single number. */
bo_status lab_tape_ready(lab_tape *tape, bo_value loss, uint64_t seed);
/* The same for the loss Σ arriving ∘ output. */
bo_status lab_tape_plan(lab_tape *tape, bo_value output, uint64_t seed);
/* Forward and backward pass; gradients are those of this pass only. */
bo_status lab_tape_run(lab_tape *tape, const bo_graph_pass *pass);
bo_status lab_tape_output(lab_tape *tape, float *out);
/* All numbers of a leaf or weight, or of its gradient. */
bo_status lab_tape_write(const lab_tape *tape, const char *name, const float *numbers);
bo_status lab_tape_read(const lab_tape *tape, const char *name, float *numbers);
bo_status lab_tape_gradient(const lab_tape *tape, const char *name, float *out);

/* Common building blocks: x Wᵀ with a weight of this name and the columns of x; an elementwise function; the mean
 * squared error against a target. */
bo_value lab_graph_linear(bo_graph *graph, const char *name, bo_value x, size_t out, bo_weight_init init);
bo_value lab_graph_unary(bo_graph *graph, bo_unary function, bo_value x);
bo_value lab_graph_squares(bo_graph *graph, bo_value prediction, bo_value target);

#endif
