/* Helpers for operations that consist of GEMMs: factors in the type of the GEMM, converted in the workspace if they
 * have another type. */
#ifndef BO_BACKEND_GPU_MATRIX_H
#define BO_BACKEND_GPU_MATRIX_H

#include "gpu.h"
#include "../../base/carver.h"

/* Returns the address of a tensor's data in `type`: the tensor itself, or, if it has another type, carved memory of
 * padded_rows rows (zero after the last row), which the launch of `list` fills. */
const void *bo_gpu_factor(bo_gpu_recast *list, bo_carver *carver, const bo_tensor *tensor, size_t padded_rows,
                          bo_element type);
/* Launches the conversions of a list. */
bo_status bo_gpu_recast_all(bo_context *context, const bo_gpu_recast *list);

/* The GEMM type of an operation: BFLOAT16 if its first input or an output has that type. */
bo_element bo_gpu_products(const bo_op_call *call);

/* Workspace for the column sums of a matrix, in floats. */
size_t bo_gpu_sum_floats(size_t rows, size_t columns);
/* Fails if the gradient of an integer input is requested. */
bo_status bo_gpu_refuse_integers(bo_context *context, const bo_op_call *call, const char *op);

#endif
