/* A graph from x to a prediction, recorded by an experiment and trained batch by batch: descent.h with an input, a
 * target and a loss. */
#ifndef BO_LAB_TOOLS_FIT_H
#define BO_LAB_TOOLS_FIT_H

#include "descent.h"

typedef struct lab_fit_desc {
    size_t rows, in, out; /* size of all batches */
    /* Records the prediction (rows x out) and declares the weights. */
    bo_value (*record)(const void *user, bo_graph *graph, bo_value x);
    const void *user;
    bo_optimizer_desc optimizer;
    uint64_t seed; /* of the weights; 0: the seed of the run */
} lab_fit_desc;

typedef struct lab_fit {
    lab_descent descent;
    bo_value x, target, prediction;
} lab_fit;

bo_status lab_fit_open(lab_run *run, const lab_fit_desc *desc, lab_fit *out);
void lab_fit_close(lab_fit *fit); /* also after a failure to open */

/* Computes loss and gradients of a batch; previous gradients are discarded. */
bo_status lab_fit_gradient(lab_fit *fit, const float *x, const float *target, double *loss);
/* The same, followed by a step with `factor` times the learning rate. */
bo_status lab_fit_step(lab_fit *fit, const float *x, const float *target, double factor, double *loss);
bo_status lab_fit_predict(lab_fit *fit, const float *x, float *prediction); /* one batch */

#endif
