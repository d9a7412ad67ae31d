/* What operations that consist of products of matrices share: factors in the type of the products, which are converted
 * in scratch memory if they have another type. */
#ifndef BO_BACKEND_GPU_MATRIX_H
#define BO_BACKEND_GPU_MATRIX_H

#include "gpu.h"
#include "../../base/carver.h"

/* Returns the address of a tensor's numbers in `type`: its own, or, if it has another type, memory of the carver with
 * padded_rows rows (those after the last are zero), which `list` fills when it is launched. */
const void *bo_gpu_factor(bo_gpu_recast *list, bo_carver *carver, const bo_tensor *tensor, size_t padded_rows,
                          bo_element type);
/* Launches the conversions of a list. */
bo_status bo_gpu_recast_all(bo_context *context, const bo_gpu_recast *list);

/* The type of the products of an operation: BFLOAT16 if its first input or an output is held so. */
bo_element bo_gpu_products(const bo_op_call *call);

/* Floats that the sum of the columns of a matrix needs. */
size_t bo_gpu_sum_floats(size_t rows, size_t columns);
/* Fails if the gradient of an input is needed that is stored as integers. */
bo_status bo_gpu_refuse_integers(bo_context *context, const bo_op_call *call, const char *op);

#endif
