/* The two parts of time-law: step times and losses. */
#ifndef BO_LAB_LEARNING_TIME_LAW_H
#define BO_LAB_LEARNING_TIME_LAW_H

#include "../experiment.h"

/* Heads have dimension 32. */
static inline bo_plan_shape time_law_shape(size_t layers, size_t width, size_t context, size_t batch)
{
    return (bo_plan_shape){.layers = layers, .width = width, .heads = width / 32, .context = context, .batch = batch};
}

/* Records the tables "proxies", "depth" and the claims "copies", "steps", "wider", "wider-muon". *slower: the step time
 * of `deep` divided by that of `wide`, with the settings of the losses below. */
bo_status time_law_steps(lab_run *run, double *slower);

/* Records the tables "losses", "law", "equal" and the claims "losses", "equivalence", "equal-time". */
bo_status time_law_losses(lab_run *run, double slower);

/* Equal numbers of parameters in 8 layers and in 2, with the context and batch size of the loss measurements. */
bo_plan_shape time_law_deep(const lab_run *run);
bo_plan_shape time_law_wide(const lab_run *run);

#endif
