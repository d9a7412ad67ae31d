/* Optimizers over the weights of a model, and schedules of their rate. The state (moments, average) is device memory of
 * the optimizer's own, saved and restored as named arrays so that a resumed run continues bit for bit. */
#ifndef BO_OPTIM_H
#define BO_OPTIM_H

#include <bochner/optim.h>
#include "../tape/weights.h"

bo_status bo_schedule_check(bo_context *context, const bo_schedule *schedule);
/* The factor of the rate at step t = 0, 1, … of `steps` (0: not known yet, no fall): rises linearly to 1 over the `warmup`
 * first, (t + 1) / warmup, then falls as the kind says, so that t = steps would have `floor`. */
double bo_schedule_factor(const bo_schedule *schedule, uint64_t step, uint64_t steps);

enum { BO_MUON_MOST_ITERATIONS = 100 };
/* Checks the descriptor and fills in its defaults; no momentum and no clipping become -1. */
bo_status bo_optimizer_resolve(bo_context *context, const bo_optimizer_desc *desc, bo_optimizer_desc *out);

typedef struct bo_optimizer bo_optimizer;

/* Weights that are frozen now are left out. The weights must have memory for gradients, and outlive the optimizer. */
bo_status bo_optimizer_create(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights,
                              bo_optimizer **out);
void bo_optimizer_destroy(bo_optimizer *optimizer); /* NULL is fine */
/* With defaults filled in. */
const bo_optimizer_desc *bo_optimizer_describe(const bo_optimizer *optimizer);
/* Device memory of one, before creating it (0: the descriptor is refused); the weights need no memory yet. */
size_t bo_optimizer_bytes(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights);

/* One step with the gradients of the weights, which are only read, and the rates times `factor`. *norm: |gradient| before
 * clipping, over the trained weights. BO_NUMERIC, with the name of a weight and nothing changed, where that is not finite.
 * Decay is for matrices, embeddings and the head: what is one number for many (gains, biases) has none. */
bo_status bo_optimizer_step(bo_context *context, bo_optimizer *optimizer, double factor, double *norm);

/* Swaps the averaged weights with the current ones: once before evaluating or saving them, once after; no step and no
 * saving of the state in between. Nothing without averaging, or before the first step. */
bo_status bo_optimizer_swap_average(bo_context *context, bo_optimizer *optimizer);

/* The state as named vectors on the device, for files; also a number: steps done. Restoring them, the number and the weights
 * continues a run to the same bits. */
size_t bo_optimizer_states(const bo_optimizer *optimizer);
typedef struct bo_optimizer_state {
    const char *name; /* "momentum.model.layers.0.…"; also first_moment, second_moment, average */
    void *data;
    size_t count; /* floats */
} bo_optimizer_state;
bo_optimizer_state bo_optimizer_state_at(const bo_optimizer *optimizer, size_t index);
uint64_t bo_optimizer_steps(const bo_optimizer *optimizer);
void bo_optimizer_set_steps(bo_optimizer *optimizer, uint64_t steps);

#endif
