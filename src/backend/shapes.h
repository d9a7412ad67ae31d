/* Shape functions (bo_op.shape) of every operation, shared by all backends: they check attributes and inputs and
 * compute the shapes of the outputs. */
#ifndef BO_BACKEND_SHAPES_H
#define BO_BACKEND_SHAPES_H

#include "backend.h"

bo_status bo_shape_embed(bo_context *context, bo_op_call *call);
bo_status bo_shape_position(bo_context *context, bo_op_call *call);
bo_status bo_shape_linear(bo_context *context, bo_op_call *call);
bo_status bo_shape_norm(bo_context *context, bo_op_call *call);
bo_status bo_shape_dropout(bo_context *context, bo_op_call *call);
bo_status bo_shape_rope(bo_context *context, bo_op_call *call);
bo_status bo_shape_attention(bo_context *context, bo_op_call *call);
bo_status bo_shape_unary(bo_context *context, bo_op_call *call);
bo_status bo_shape_glu(bo_context *context, bo_op_call *call);
bo_status bo_shape_add(bo_context *context, bo_op_call *call);
bo_status bo_shape_cross_entropy(bo_context *context, bo_op_call *call);
bo_status bo_shape_loss(bo_context *context, bo_op_call *call);
bo_status bo_shape_ssm(bo_context *context, bo_op_call *call);
bo_status bo_shape_recurrent(bo_context *context, bo_op_call *call);
bo_status bo_shape_mix(bo_context *context, bo_op_call *call);
bo_status bo_shape_reshape(bo_context *context, bo_op_call *call);
bo_status bo_shape_concat(bo_context *context, bo_op_call *call);
bo_status bo_shape_aggregate(bo_context *context, bo_op_call *call);
bo_status bo_shape_noise(bo_context *context, bo_op_call *call);
bo_status bo_shape_scale(bo_context *context, bo_op_call *call);
bo_status bo_shape_product(bo_context *context, bo_op_call *call);
bo_status bo_shape_features(bo_context *context, bo_op_call *call);
bo_status bo_shape_quadratic(bo_context *context, bo_op_call *call);
bo_status bo_shape_round(bo_context *context, bo_op_call *call);
bo_status bo_shape_convolution(bo_context *context, bo_op_call *call);
bo_status bo_shape_pool(bo_context *context, bo_op_call *call);
bo_status bo_shape_batch_norm(bo_context *context, bo_op_call *call);

enum { BO_PRODUCT_FACTORS = 4 };
static inline double bo_product_power(const bo_product_attributes *attributes, size_t factor)
{
    const double powers[] = {attributes->first, attributes->second, attributes->third, attributes->fourth};
    return powers[factor];
}

/* Windows by axis: 0 is the height, 1 the width. */
typedef struct bo_grid {
    size_t size[2], kernel[2], stride[2], before[2], after[2];
} bo_grid;
/* Windows with defaults filled in, and the number of windows along an axis (0: no window fits). */
bo_grid bo_grid_of(const bo_windows *windows);
size_t bo_grid_count(const bo_grid *grid, size_t axis);

/* Returns the number of gates of a cell; its input has gates * h columns. 0: unknown cell. */
size_t bo_recurrent_gates(bo_recurrence cell);
/* The state of MIX: its number of tokens (uint32) and, from byte BO_MIX_HEAD on, up to `max_tokens` rows of x. */
enum { BO_MIX_HEAD = 64 };

/* Bytes of the state of a sequence. For MIX, `max_tokens` is the maximum number of tokens; for a causal CONVOLUTION,
 * `channels` is the number of columns of x. */
size_t bo_mix_state_bytes(size_t columns, size_t max_tokens);
size_t bo_ssm_state_bytes(const bo_ssm_attributes *attributes, size_t channels);
size_t bo_recurrent_state_bytes(bo_recurrence cell, size_t size);
size_t bo_convolution_state_bytes(const bo_convolution_attributes *attributes, size_t channels);

/* bo_op.passes of the operations that have one. */
unsigned bo_passes_linear(const bo_op_call *call);
unsigned bo_passes_add(const bo_op_call *call);
unsigned bo_passes_round(const bo_op_call *call);
unsigned bo_passes_reshape(const bo_op_call *call);

#endif
