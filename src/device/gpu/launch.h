/* Kernel launches on the GPU of a context: BO_LAUNCH(context, add, &(bo_gpu_add){…}). gpu/launches.h lists them. */
#ifndef BO_DEVICE_GPU_LAUNCH_H
#define BO_DEVICE_GPU_LAUNCH_H

#include "../device.h"
#include "plugin.h"

struct bo_gpu *bo_device_gpu(const bo_device *device);
const bo_gpu_functions *bo_device_functions(const bo_device *device);

/* Converts an error text of the plugin to an error of the context; NULL: BO_OK. */
bo_status bo_gpu_check(bo_context *context, bo_gpu_error error);

/* Submits work to the GPU of the context while holding the lock. The result is a bo_status. */
#define BO_LAUNCH(context, name, arguments)                                                                            \
    bo_gpu_end(context, bo_gpu_begin(context)->name(bo_device_gpu(bo_device_of(context)), arguments))
const bo_gpu_functions *bo_gpu_begin(bo_context *context);
bo_status bo_gpu_end(bo_context *context, bo_gpu_error error);

/* GPU memory for the result of a call, to be returned after the result was read. NULL on error (see the context's
 * error). */
void *bo_gpu_borrow(bo_context *context, size_t bytes);
void bo_gpu_return(bo_context *context, void *memory);

/* Bytes of an element of FLOAT32, INT32 or BFLOAT16. */
static inline size_t bo_gpu_bytes(bo_element type)
{
    return type == BO_ELEMENT_BFLOAT16 ? 2 : 4;
}

#endif
