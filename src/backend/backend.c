/* The operations of the devices: backend.h. */
#include "backend.h"

extern const bo_backend bo_backend_gpu;

const bo_backend *bo_backend_of(const bo_device *device)
{
    const bo_backend *backend = bo_device_backend(device);
    if (backend) return backend;
    return bo_device_is_gpu(device) ? &bo_backend_gpu : bo_backend_cpu();
}

bo_element bo_backend_storage(const bo_context *context, const bo_device *device)
{
    const bool narrow = bo_context_precision(context) == BO_PRECISION_BFLOAT16;
    return bo_device_is_gpu(device) && narrow ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32;
}
