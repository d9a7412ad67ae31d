/* Training until the held-out loss no longer improves. */
#ifndef BO_LAB_TOOLS_CONVERGE_H
#define BO_LAB_TOOLS_CONVERGE_H

#include "../measurement.h"
#include <bochner/train.h>

/* Training has several phases with a constant learning rate, a quarter of the one before. A phase ends after `patience`
 * evaluations without a relative improvement of `gain` over its best loss; evaluations before step `min_steps` do not
 * count, because some tasks start with a plateau. Training ends after the last phase, when the loss is at most
 * `solved`, or after `max_steps` steps. */
typedef struct lab_patience {
    uint64_t every, min_steps, max_steps; /* steps between evaluations, and in total */
    size_t phases, patience;
    double gain, solved;
    /* Called after each evaluation with the lowest loss so far; may be NULL. */
    bo_status (*improved)(void *user);
    /* Receives the completed fraction of `max_steps`; may be NULL. */
    bo_status (*report)(void *user, double part);
    void *user;
} lab_patience;

typedef struct lab_converged {
    double loss;    /* lowest held-out loss; INFINITY if no loss was finite */
    uint64_t best;  /* steps until the lowest loss */
    uint64_t steps; /* steps taken */
    bool settled;   /* ended before `max_steps` steps, without divergence */
    bool diverged;  /* a loss was NaN or infinite: a valid result, not a failure */
} lab_converged;

/* desc: what is trained, with validation data and the learning rates of the first phase; `steps` and `schedule` are
 * filled in. */
bo_status lab_converge(lab_run *run, const bo_trainer_desc *desc, const lab_patience *rule, lab_converged *out);

#endif
