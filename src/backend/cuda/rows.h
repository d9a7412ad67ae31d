/* Helpers of the operations on rows and numbers: tensors of a call as arguments of launches. */
#ifndef BO_BACKEND_CUDA_ROWS_H
#define BO_BACKEND_CUDA_ROWS_H

#include "cuda.h"
#include "../shapes.h"

/* Inputs, outputs and their gradients, which may be absent (NULL). */
static inline bo_cuda_source bo_cuda_in(const bo_op_call *call, size_t i)
{
    return (bo_cuda_source){call->in[i].data, bo_cuda_type_of(call->in[i].element)};
}

static inline bo_cuda_target bo_cuda_out(const bo_op_call *call, size_t o)
{
    return (bo_cuda_target){call->out[o].data, bo_cuda_type_of(call->out[o].element), false};
}

static inline bo_cuda_source bo_cuda_dout(const bo_op_call *call, size_t o)
{
    return (bo_cuda_source){call->dout[o], bo_cuda_type_of(call->out[o].element)};
}

static inline bo_cuda_target bo_cuda_din(const bo_op_call *call, size_t i)
{
    return (bo_cuda_target){call->din[i], bo_cuda_type_of(call->in[i].element), call->add[i]};
}

/* out[0] = in[0]. */
bo_status bo_cuda_pass_on(bo_context *context, const bo_op_call *call);

/* The gradient of a table whose rows were selected by the indices of an input: sums of the rows of dout[0] with the same
 * index. Does nothing if din[table] is NULL. Uses bo_cuda_scatter_bytes of scratch memory. */
size_t bo_cuda_scatter_bytes(const bo_op_call *call, size_t indices, size_t table);
bo_status bo_cuda_scatter_rows(bo_context *context, const bo_op_call *call, size_t indices, size_t table);

/* The permutation that sorts the integers of an input (bo_cuda_sort), in memory of bo_cuda_sorted_bytes. */
typedef struct bo_cuda_sorted {
    int32_t *keys, *order;
} bo_cuda_sorted;
size_t bo_cuda_sorted_bytes(size_t count);
bo_status bo_cuda_sort_keys(bo_context *context, const int32_t *keys, size_t count, size_t limit, void *room,
                            bo_cuda_sorted *out);

/* Frequencies of positions (cpu/angles.h) in scratch memory of the device: bo_angles_bytes(width). */
bo_status bo_cuda_angles(bo_context *context, size_t width, double base, const bo_rope_scaling *scaling, void *room);

/* Windows on the images of input 0. */
bo_cuda_windows bo_cuda_windows_of(const bo_grid *grid, const bo_op_call *call);

/* The sequences of input 0 in this pass, and their states: NULL if there are none. Refuses passes with final states. */
bo_status bo_cuda_sequences(bo_context *context, const bo_op_call *call, const bo_sequences *sequences, const char *op,
                            bo_cuda_rows *out);
void *const *bo_cuda_states_of(const bo_op_call *call, const bo_sequences *sequences, const bo_cuda_rows *rows);

#endif
