/* One layer, or a few, on the engine's tape: numbers in, numbers and gradients out.
 *
 *     lab_tape tape;
 *     lab_tape_open(context, &tape);
 *     bo_value x = lab_tape_leaf(&tape, "x", rows, columns);
 *     lab_tape_plan(&tape, bo_nn_pool(tape.graph, x, BO_POOL_MAX, &windows), seed);
 *     lab_tape_write(&tape, "x", numbers);
 *     lab_tape_write(&tape, LAB_ARRIVING, gradient);
 *     lab_tape_run(&tape, NULL);
 *     lab_tape_gradient(&tape, "x", out);
 *     lab_tape_close(&tape);
 *
 * Leaves are weights, so that gradients reach them; weights that layers declare are there too, under their names. */
#ifndef BO_LAB_TAPE_H
#define BO_LAB_TAPE_H

#include "../lab.h"
#include "../../nn/nn.h"

/* Invariant: after lab_tape_open close is safe, whatever failed. */
typedef struct lab_tape {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value output;
} lab_tape;

/* The weight that holds the gradient which arrives at the output, as many numbers as it has; ones until written. */
#define LAB_ARRIVING "arriving"

bo_status lab_tape_open(bo_context *context, lab_tape *out);
void lab_tape_close(lab_tape *tape);
bo_value lab_tape_leaf(lab_tape *tape, const char *name, size_t rows, size_t columns); /* zeros until written */
/* Memory for everything; weights of layers are drawn by `seed`. The loss is Σ arriving ∘ output. */
bo_status lab_tape_plan(lab_tape *tape, bo_value output, uint64_t seed);
/* All numbers of a leaf or weight. */
bo_status lab_tape_write(lab_tape *tape, const char *name, const float *numbers);
bo_status lab_tape_read(lab_tape *tape, const char *name, float *numbers);
/* Forward and backward; gradients are of this run alone. */
bo_status lab_tape_run(lab_tape *tape, const bo_pass *pass);
bo_status lab_tape_output(lab_tape *tape, float *out);
bo_status lab_tape_gradient(lab_tape *tape, const char *name, float *out);

#endif
