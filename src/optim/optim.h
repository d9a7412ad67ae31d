/* Optimisers over the weights of a model, and schedules of their rate. The state (moments, average) is device memory of
 * the optimiser's own, saved and restored as named arrays so that a resumed run continues bit for bit. */
#ifndef BO_OPTIM_OPTIM_H
#define BO_OPTIM_OPTIM_H

#include <bochner/optim.h>
#include "../tape/weights.h"

/* The factor of the rate at step t = 0, 1, … of `steps`: rises linearly over `warmup` steps, then falls as the kind says to
 * `floor`. */
double bo_schedule_factor(const bo_schedule *schedule, uint64_t step, uint64_t steps);

typedef struct bo_optimizer bo_optimizer;

bo_status bo_optimizer_create(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights,
                              bo_optimizer **out);
void bo_optimizer_destroy(bo_optimizer *optimizer); /* NULL is fine */
/* With defaults filled in. */
const bo_optimizer_desc *bo_optimizer_describe(const bo_optimizer *optimizer);
size_t bo_optimizer_bytes(bo_context *context, const bo_optimizer_desc *desc,
                          bo_weights *weights); /* before creating */

/* One step with the gradients of the weights, which it may scale (clipping). *norm: |gradient| before clipping, over the
 * trained weights. BO_NUMERIC, and nothing changed, where that is not finite. */
bo_status bo_optimizer_step(bo_context *context, bo_optimizer *optimizer, double factor, double *norm);

/* Swaps the averaged weights with the current ones: once before evaluating or saving them, once after. Nothing without
 * averaging. */
bo_status bo_optimizer_swap_average(bo_context *context, bo_optimizer *optimizer);

/* The state as named vectors on the device, for files; also a number: steps done. */
size_t bo_optimizer_states(const bo_optimizer *optimizer);
typedef struct bo_optimizer_state {
    const char *name; /* "momentum.model.layers.0.…" */
    void *data;
    size_t count; /* floats */
} bo_optimizer_state;
bo_optimizer_state bo_optimizer_state_at(const bo_optimizer *optimizer, size_t index);
uint64_t bo_optimizer_steps(const bo_optimizer *optimizer);
void bo_optimizer_set_steps(bo_optimizer *optimizer, uint64_t steps);

#endif
