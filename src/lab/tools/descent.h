/* A graph that learns by an optimiser, step by step: what bo_trainer does, for graphs that experiments record.
 *
 *     lab_descent descent;
 *     lab_descent_open(context, &descent);
 *     bo_value x = bo_graph_input(descent.graph, "x", BO_ELEMENT_FLOAT32, rows, dim), …, loss = …;
 *     lab_descent_ready(&descent, loss, rows, &lab_plain_descent, seed);
 *     bo_graph_write(context, descent.graph, x, numbers);
 *     lab_descent_step(&descent, rate, NULL);
 *     lab_descent_close(&descent); */
#ifndef BO_LAB_DESCENT_H
#define BO_LAB_DESCENT_H

#include "../lab.h"
#include "../../optim/optim.h"
#include "../../tape/graph.h"

typedef struct lab_descent {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_optimizer *optimizer; /* NULL before it is ready */
    bo_value loss;
    bo_pass pass; /* training; every run has a seed of its own */
} lab_descent;

/* w - factor · gradient and nothing else: no momentum, no clipping, rate 1. */
extern const bo_optimizer_desc lab_plain_descent;

/* Weights and an empty graph. Closing is fine after a failure and of zeros. */
bo_status lab_descent_open(bo_context *context, lab_descent *out);
void lab_descent_close(lab_descent *descent);
/* What the experiments here are made of: x Wᵀ with a weight of this name and shape, mean squares against a target. */
bo_value lab_descent_linear(lab_descent *descent, const char *name, bo_value x, size_t out, bo_init init);
bo_value lab_descent_squares(lab_descent *descent, bo_value prediction, bo_value target);
/* Plans the graph, draws the weights; gradients will be those of scale · loss. */
bo_status lab_descent_ready(lab_descent *descent, bo_value loss, double scale, const bo_optimizer_desc *optimizer,
                            uint64_t seed);
/* Gradients at the weights as they are; *loss (may be NULL) without the scale. */
bo_status lab_descent_gradients(lab_descent *descent, double *loss);
/* Gradients, then a step of the optimiser with `factor` times its rate. */
bo_status lab_descent_step(lab_descent *descent, double factor, double *loss);
/* All numbers of a weight, of its gradient. */
bo_status lab_descent_get(const lab_descent *descent, const char *weight, float *out);
bo_status lab_descent_gradient(const lab_descent *descent, const char *weight, float *out);
bo_status lab_descent_set(const lab_descent *descent, const char *weight, const float *numbers);

#endif
