/* Declarations shared by the GPU operations. Each operation is a C file that describes its call
 * (device/gpu/launches.h); its kernels are in src/device/cuda. */
#ifndef BO_BACKEND_GPU_H
#define BO_BACKEND_GPU_H

#include "../../device/gpu/launch.h"
#include "../backend.h"

static inline size_t bo_gpu_count(const bo_tensor *tensor)
{
    return tensor->rows * tensor->columns;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* The pass in device memory, and its copy in host memory. */
struct bo_staged {
    bo_gpu_pass *device; /* followed by its arrays */
    size_t bytes;        /* of device memory */
    bo_gpu_pass host;    /* with device addresses */
    char *written;       /* host memory that is copied to the device */
    bo_device *owner;
};

bo_status bo_gpu_stage(bo_context *context, const bo_graph_pass *pass, size_t layers, size_t sequences,
                       bo_staged **staged, bool *moved);
void bo_gpu_unstage(bo_staged *staged);

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* Sets the gradient of an input to zero unless it is accumulated. */
bo_status bo_gpu_no_gradient(bo_context *context, const bo_op_call *call, size_t input);
/* Backward of a call whose outputs have no gradient: sets gradients that are not accumulated to zero. Sets *done if
 * this applies. */
bo_status bo_gpu_backward_zero(bo_context *context, const bo_op_call *call, bool *done);
/* din[input] = or += dout[0]. */
bo_status bo_gpu_pass_gradient(bo_context *context, const bo_op_call *call, size_t input);
bo_status bo_gpu_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved,
                            size_t *scratch);

extern const bo_op bo_gpu_op_add, bo_gpu_op_attention;
extern const bo_op bo_gpu_op_embed, bo_gpu_op_position, bo_gpu_op_norm, bo_gpu_op_dropout, bo_gpu_op_rope,
    bo_gpu_op_unary, bo_gpu_op_glu, bo_gpu_op_loss; /* on rows and elements */
extern const bo_op bo_gpu_op_noise, bo_gpu_op_round, bo_gpu_op_product, bo_gpu_op_scale, bo_gpu_op_reshape,
    bo_gpu_op_concat, bo_gpu_op_batch_norm, bo_gpu_op_pool, bo_gpu_op_aggregate;
extern const bo_op bo_gpu_op_features, bo_gpu_op_convolution, bo_gpu_op_mix, bo_gpu_op_recurrent;
extern const bo_op bo_gpu_op_cross_entropy;
extern const bo_op bo_gpu_op_linear;
extern const bo_op bo_gpu_op_quadratic;

extern const struct bo_updates bo_gpu_updates;

#endif
