/* Whether attributes and inputs of an operation fit, and what its outputs are: bo_op.shape of every operation, the same for
 * every backend. */
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
/* Windows with what is 0 and stands for 1 filled in; how many fit along an axis, 0 where none does. */
bo_grid bo_grid_of(const bo_windows *windows);
size_t bo_grid_count(const bo_grid *grid, size_t axis);

/* Gates of a cell: its input has so many times h columns; 0: no such. */
size_t bo_recurrent_gates(bo_recurrence cell);
/* The memory of MIX: how many tokens it holds (uint32), and from byte BO_MIX_HEAD on the rows of x, of which there are at most
 * `most`. */
enum { BO_MIX_HEAD = 64 };

/* bo_op.passes of those that have one. */
unsigned bo_passes_linear(const bo_op_call *call);
unsigned bo_passes_add(const bo_op_call *call);
unsigned bo_passes_round(const bo_op_call *call);
unsigned bo_passes_reshape(const bo_op_call *call);

#endif
