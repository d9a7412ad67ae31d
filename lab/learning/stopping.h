/* Full-batch training that is stopped where a validation part says, at the best of a few rates. */
#ifndef BO_LAB_LEARNING_STOPPING_H
#define BO_LAB_LEARNING_STOPPING_H

#include "../tools/fit.h"
#include "tangent.h"

enum { LAB_MOST_TRIED = 5 };

/* The parts of the examples must be multiples of the training part's rows: they are predicted in batches of those. */
typedef struct lab_stopping {
    const lab_examples *examples; /* targets and parts */
    const float *inputs;          /* rows x width: the examples' x, or features of it */
    size_t width;
    bo_value (*record)(const void *user, bo_graph *graph, bo_value x);
    const void *user;
    bo_optimizer_kind kind;
    double rate;     /* the first; each further three times the one before */
    size_t rates;    /* 1 to LAB_MOST_TRIED */
    size_t steps;    /* with a rate that stays; validation every twentieth of them */
    size_t relevant; /* how many of the first weights count for `share`; 0: none */
} lab_stopping;

typedef struct lab_stopped {
    double valid, test; /* lab_examples_error */
    double rate;
    double share; /* of the squared weights, on the relevant ones (of lab_record_linear) */
} lab_stopped;

bo_status lab_stop(lab_run *run, const lab_stopping *desc, lab_stopped *out);

/* A linear function of the inputs whose weights ("readout") begin at zero. */
bo_value lab_record_linear(const void *user, bo_graph *graph, bo_value x);

#endif
