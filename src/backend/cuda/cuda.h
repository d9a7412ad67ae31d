/* The library's side of the CUDA backend: the open device, and helpers that every operation uses. An operation is a C
 * file here that describes its call (arguments.h), and a file in device/ with its kernels. */
#ifndef BO_BACKEND_CUDA_H
#define BO_BACKEND_CUDA_H

#include "../backend.h"
#include "plugin.h"

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* The functions of the plugin and the open device. Invariant: both are set after bo_cuda_open succeeded; a process uses
 * one device. */
typedef struct bo_cuda_device {
    const bo_cuda_functions *functions;
    bo_cuda *cuda;
    bo_cuda_properties properties;
} bo_cuda_device;

/* Loads the plugin. NULL: it is not installed, or not usable; the context's error states why. */
const bo_cuda_functions *bo_cuda_load(bo_context *context);
/* Loads the plugin and returns its path; NULL as above. */
const char *bo_cuda_plugin_path(bo_context *context);
/* Opens device `index`, or returns it if it is open. BO_INVALID if this process uses another one. */
bo_status bo_cuda_open(bo_context *context, int index, const bo_backend **out);
/* The open device, for operations: a graph with this backend exists only after it was opened. */
const bo_cuda_device *bo_cuda_open_device(void);
size_t bo_cuda_free_bytes(void); /* of the open device */
void bo_cuda_lock(void);
void bo_cuda_unlock(void);

/* Memory of the device for the result of a call that is read at once. Called with the lock held, and valid until it is
 * released. NULL: out of memory. */
void *bo_cuda_scratch(bo_context *context, size_t bytes);

/* Turns the text of the plugin into an error of the context: BO_OK if it is NULL. */
bo_status bo_cuda_check(bo_context *context, bo_cuda_error error);

/* Launches a function of the plugin: BO_LAUNCH(context, add, &(bo_cuda_add){…}). */
#define BO_LAUNCH(context, name, arguments)                                                                            \
    bo_cuda_check(context, bo_cuda_open_device()->functions->name(bo_cuda_open_device()->cuda, arguments))

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static inline bo_cuda_type bo_cuda_type_of(bo_element element)
{
    return element == BO_ELEMENT_BFLOAT16 ? BO_CUDA_BF16 : BO_CUDA_F32;
}

static inline size_t bo_cuda_bytes(bo_cuda_type type)
{
    return type == BO_CUDA_BF16 ? 2 : 4;
}

static inline size_t bo_cuda_count(const bo_tensor *tensor)
{
    return tensor->rows * tensor->columns;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* The pass in memory of the device, and its copy in memory of the host. */
struct bo_staged {
    bo_cuda_pass *device; /* followed by its arrays */
    size_t bytes;         /* of the memory of the device */
    bo_cuda_pass host;    /* with addresses of the device */
    char *room;           /* of the host: what is written to the device */
};

bo_status bo_cuda_stage(bo_context *context, const bo_graph_pass *pass, size_t layers, size_t sequences,
                        bo_staged **staged, bool *moved);
void bo_cuda_unstage(bo_staged *staged);

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* Writes zeros to the gradient of an input, or leaves it if it is added to. */
bo_status bo_cuda_no_gradient(bo_context *context, const bo_op_call *call, size_t input);
/* Backward of an operation whose outputs have no gradient: writes zeros to gradients that are not added to. Returns true
 * if the call was one of these. */
bo_status bo_cuda_backward_zero(bo_context *context, const bo_op_call *call, bool *done);
/* din[input] = or += dout[0]. */
bo_status bo_cuda_hand_back(bo_context *context, const bo_op_call *call, size_t input);
bo_status bo_cuda_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved,
                             size_t *scratch);

extern const bo_op bo_cuda_op_add, bo_cuda_op_attention;
extern const bo_op bo_cuda_op_embed, bo_cuda_op_position, bo_cuda_op_norm, bo_cuda_op_dropout, bo_cuda_op_rope,
    bo_cuda_op_unary, bo_cuda_op_glu, bo_cuda_op_loss; /* on rows and numbers */
extern const bo_op bo_cuda_op_noise, bo_cuda_op_round, bo_cuda_op_product, bo_cuda_op_scale, bo_cuda_op_reshape,
    bo_cuda_op_concat, bo_cuda_op_batch_norm, bo_cuda_op_pool, bo_cuda_op_aggregate;
extern const bo_op bo_cuda_op_features, bo_cuda_op_convolution, bo_cuda_op_mix, bo_cuda_op_recurrent;
extern const bo_op bo_cuda_op_cross_entropy;
extern const bo_op bo_cuda_op_linear;
extern const bo_op bo_cuda_op_quadratic;

extern const struct bo_updates bo_cuda_updates;

#endif
