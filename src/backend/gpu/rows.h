/* Helpers of the operations on rows and elements: tensors of a call as arguments of launches. */
#ifndef BO_BACKEND_GPU_ROWS_H
#define BO_BACKEND_GPU_ROWS_H

#include "gpu.h"
#include "../shapes.h"

/* Inputs, outputs and their gradients, which may be absent (NULL). */
static inline bo_gpu_source bo_gpu_in(const bo_op_call *call, size_t i)
{
    return (bo_gpu_source){call->in[i].data, call->in[i].element};
}

static inline bo_gpu_target bo_gpu_out(const bo_op_call *call, size_t o)
{
    return (bo_gpu_target){call->out[o].data, call->out[o].element, false};
}

static inline bo_gpu_source bo_gpu_dout(const bo_op_call *call, size_t o)
{
    return (bo_gpu_source){call->dout[o], call->out[o].element};
}

static inline bo_gpu_target bo_gpu_din(const bo_op_call *call, size_t i)
{
    return (bo_gpu_target){call->din[i], call->in[i].element, call->add[i]};
}

/* out[0] = in[0]. */
bo_status bo_gpu_pass_on(bo_context *context, const bo_op_call *call);

/* The gradient of a lookup table: sums of the rows of dout[0] with the same index. Does nothing if din[table] is NULL.
 * The workspace has bo_gpu_scatter_bytes. */
size_t bo_gpu_scatter_bytes(const bo_op_call *call, size_t indices, size_t table);
bo_status bo_gpu_scatter_rows(bo_context *context, const bo_op_call *call, size_t indices, size_t table);

/* The permutation that sorts the integers of an input (bo_gpu_sort), in memory of bo_gpu_sorted_bytes. */
typedef struct bo_gpu_sorted {
    int32_t *keys, *order;
} bo_gpu_sorted;
size_t bo_gpu_sorted_bytes(size_t count);
bo_status bo_gpu_sort_keys(bo_context *context, const int32_t *keys, size_t count, size_t limit, void *workspace,
                           bo_gpu_sorted *out);

/* Frequencies of positions (cpu/angles.h) in a device workspace of bo_angles_bytes(width). */
bo_status bo_gpu_angles(bo_context *context, size_t width, double base, const bo_rope_scaling *scaling,
                        void *workspace);

/* Windows on the images of input 0. */
bo_gpu_windows bo_gpu_windows_of(const bo_grid *grid, const bo_op_call *call);

/* The sequences of input 0 in this pass, and their states: NULL if there are none. Refuses passes with final states. */
bo_status bo_gpu_sequences(bo_context *context, const bo_op_call *call, const bo_sequences *sequences, const char *op,
                           bo_gpu_rows *out);
void *const *bo_gpu_states_of(const bo_op_call *call, const bo_sequences *sequences, const bo_gpu_rows *rows);

#endif
