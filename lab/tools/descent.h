/* A graph trained by an optimizer, step by step: like bo_trainer, but for graphs that experiments record.
 *
 *     lab_descent descent;
 *     lab_descent_open(context, &descent);
 *     bo_graph *graph = descent.tape.graph;
 *     bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, rows, dim), …, loss = …;
 *     lab_descent_ready(&descent, loss, rows, &lab_plain_descent, seed);
 *     bo_graph_write(context, graph, x, numbers);
 *     lab_descent_step(&descent, rate, NULL);
 *     lab_tape_read(&descent.tape, "w", weights);
 *     lab_descent_close(&descent); */
#ifndef BO_LAB_TOOLS_DESCENT_H
#define BO_LAB_TOOLS_DESCENT_H

#include "tape.h"
#include <bochner/optim.h>

typedef struct lab_descent {
    lab_tape tape;
    bo_optimizer *optimizer; /* NULL until it is ready */
    bo_value loss;
    bo_graph_pass pass; /* training mode; every step has its own seed */
} lab_descent;

/* w - factor · gradient: no momentum, no clipping, learning rate 1. */
extern const bo_optimizer_desc lab_plain_descent;

/* Creates weights and an empty graph. Closing is allowed after a failure and for a zeroed structure. */
bo_status lab_descent_open(bo_context *context, lab_descent *out);
void lab_descent_close(lab_descent *descent);
/* Plans the graph and draws the weights. Gradients are those of scale · loss. */
bo_status lab_descent_ready(lab_descent *descent, bo_value loss, double scale, const bo_optimizer_desc *optimizer,
                            uint64_t seed);
/* Computes gradients at the current weights. *loss (may be NULL) is not scaled. */
bo_status lab_descent_gradients(lab_descent *descent, double *loss);
/* Computes gradients, then takes a step of the optimizer with `factor` times its learning rate. */
bo_status lab_descent_step(lab_descent *descent, double factor, double *loss);

/* Replaces open and ready: creates a zero weight "w" without a graph, which is updated with given gradients. */
bo_status lab_descent_weight(bo_context *context, size_t rows, size_t columns, const bo_optimizer_desc *optimizer,
                             lab_descent *out);
bo_status lab_descent_apply(lab_descent *descent, const float *gradient, double factor);

#endif
