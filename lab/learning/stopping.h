/* Full-batch training with early stopping on a validation part, at the best of a few learning rates. */
#ifndef BO_LAB_LEARNING_STOPPING_H
#define BO_LAB_LEARNING_STOPPING_H

#include "../experiment.h"
#include "tangent.h"

enum { LAB_MAX_TRIALS = 5 };

/* The sizes of the other parts must be multiples of the training part, because predictions use batches of its size. */
typedef struct lab_stopping {
    const lab_examples *examples; /* targets and parts */
    const float *inputs;          /* rows x width: x of the examples, or features of it */
    size_t width;
    bo_value (*record)(const void *user, bo_graph *graph, bo_value x);
    const void *user;
    bo_optimizer_kind kind;
    double rate;     /* the first; each further rate is three times the previous */
    size_t rates;    /* 1 to LAB_MAX_TRIALS */
    size_t steps;    /* at a constant rate; validated every twentieth of them */
    size_t relevant; /* number of leading weights that count for `share`; 0: not computed */
} lab_stopping;

typedef struct lab_stopped {
    double valid, test; /* lab_examples_error */
    double rate;
    double share; /* fraction of the squared weights on the relevant ones (with lab_record_linear) */
} lab_stopped;

bo_status lab_stop(lab_run *run, const lab_stopping *desc, lab_stopped *out);

/* A linear function of the inputs, whose weights ("readout") start at zero. */
bo_value lab_record_linear(const void *user, bo_graph *graph, bo_value x);

#endif
