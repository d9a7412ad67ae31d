/* Arrays of the library in memory of the device, by the object that they belong to. The address of an object's array
 * stays the same while its size does, so that recorded runs can use it. */
#ifndef BO_BACKEND_CUDA_UPLOADS_H
#define BO_BACKEND_CUDA_UPLOADS_H

#include "cuda.h"

/* Returns the array of an owner, or NULL if there is none with this version. */
const void *bo_cuda_uploaded(const void *owner, uint64_t version);
/* Writes the array of an owner. Not while a run is recorded. */
bo_status bo_cuda_upload(bo_context *context, const void *owner, uint64_t version, const void *host, size_t bytes);

#endif
