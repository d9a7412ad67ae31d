/* Functions of optimizers that the library needs beyond <bochner/optim.h>. The state (moments, average) is device
 * memory of the optimizer. It is saved and restored as named arrays, so that a resumed run continues with the same
 * bits. */
#ifndef BO_OPTIM_H
#define BO_OPTIM_H

#include <bochner/optim.h>
#include "../tape/weights.h"

/* BO_INVALID: a field is out of range, for example a floor outside [0, 1]. */
bo_status bo_schedule_check(bo_context *context, const bo_schedule *schedule);

enum { BO_MUON_MAX_ITERATIONS = 100 };
/* Checks the descriptor and fills in its defaults. Momentum and clipping that are turned off become -1. */
bo_status bo_optimizer_resolve(bo_context *context, const bo_optimizer_desc *desc, bo_optimizer_desc *out);
/* Device memory of an optimizer, before it is created (0: the descriptor is invalid). The weights need no memory
 * yet. */
size_t bo_optimizer_bytes(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights);

/* The state as named vectors on the device, for files, together with the number of steps done. Restoring the vectors,
 * the number and the weights continues a run with the same bits. */
size_t bo_optimizer_states(const bo_optimizer *optimizer);
typedef struct bo_optimizer_state {
    const char *name; /* "momentum.model.layers.0.…"; also first_moment, second_moment, average */
    void *data;
    size_t count; /* number of floats */
} bo_optimizer_state;
bo_optimizer_state bo_optimizer_state_at(const bo_optimizer *optimizer, size_t index);
void bo_optimizer_set_steps(bo_optimizer *optimizer, uint64_t steps);

#endif
