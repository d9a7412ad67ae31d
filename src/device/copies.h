/* Copies of the arrays of an immutable object (a feature map, an attention) in the memory of GPUs, one for each. The
 * object owns them, and frees them when it is destroyed. The address of a copy stays the same while its size does, so
 * that recorded work can use it. */
#ifndef BO_DEVICE_COPIES_H
#define BO_DEVICE_COPIES_H

#include "device.h"

typedef struct bo_device_copies bo_device_copies;

/* NULL: see the context's error. */
bo_device_copies *bo_device_copies_create(bo_context *context);
void bo_device_copies_destroy(bo_device_copies *copies);
/* Returns the copy on a device, or NULL if there is none with this version of the object. */
const void *bo_device_copy_find(bo_device_copies *copies, const bo_device *device, uint64_t version);
/* Writes the copy on a device, after all work that was submitted before. Not while work is recorded. */
bo_status bo_device_copy_write(bo_context *context, bo_device_copies *copies, bo_device *device, uint64_t version,
                               const void *host, size_t bytes);

#endif
