/* The two halves of time-law: step times, and losses. */
#ifndef BO_LAB_LEARNING_TIME_LAW_H
#define BO_LAB_LEARNING_TIME_LAW_H

#include "../experiment.h"
#include "../../src/plan/plan.h"

/* Heads of 32. */
static inline bo_plan_shape time_law_shape(size_t layers, size_t width, size_t context, size_t batch)
{
    return (bo_plan_shape){.layers = layers, .width = width, .heads = width / 32, .context = context, .batch = batch};
}

/* Tables "proxies", "depth"; claims "copies", "steps", "wider", "wider-muon". *slower: how much longer a step of `deep` takes
 * than one of `wide`, both as the losses below train them. */
bo_status time_law_steps(lab_run *run, double *slower);

/* Tables "losses", "law", "equal"; claims "losses", "equivalence", "equal-time". */
bo_status time_law_losses(lab_run *run, double slower);

/* Equal parameters, 8 layers and 2, with the context and batch that the losses are trained with. */
bo_plan_shape time_law_deep(const lab_run *run);
bo_plan_shape time_law_wide(const lab_run *run);

#endif
