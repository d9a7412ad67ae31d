/* Launching kernels of the GPU of a context: BO_LAUNCH(context, add, &(bo_gpu_add){…}). gpu/launches.h lists them. */
#ifndef BO_DEVICE_GPU_LAUNCH_H
#define BO_DEVICE_GPU_LAUNCH_H

#include "../device.h"
#include "plugin.h"

struct bo_gpu *bo_device_gpu(const bo_device *device);
const bo_gpu_functions *bo_device_functions(const bo_device *device);

/* Turns the text of the plugin into an error of the context: BO_OK if it is NULL. */
bo_status bo_gpu_check(bo_context *context, bo_gpu_error error);

/* Submits work to the GPU of the context, with the lock. The result is a bo_status. */
#define BO_LAUNCH(context, name, arguments)                                                                            \
    bo_gpu_end(context, bo_gpu_begin(context)->name(bo_device_gpu(bo_device_of(context)), arguments))
const bo_gpu_functions *bo_gpu_begin(bo_context *context);
bo_status bo_gpu_end(bo_context *context, bo_gpu_error error);

/* Memory of the GPU for the result of a call, which is given back after it was read. NULL: see the context's error. */
void *bo_gpu_borrow(bo_context *context, size_t bytes);
void bo_gpu_return(bo_context *context, void *memory);

/* Bytes of a number of FLOAT32, INT32 or BFLOAT16. */
static inline size_t bo_gpu_bytes(bo_element type)
{
    return type == BO_ELEMENT_BFLOAT16 ? 2 : 4;
}

#endif
