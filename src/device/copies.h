/* Copies of the arrays of an immutable object (a feature map, an attention) in GPU memory, one per GPU. The object owns
 * the copies and frees them when it is destroyed. The address of a copy changes only if its size changes, so recorded
 * work can use it. */
#ifndef BO_DEVICE_COPIES_H
#define BO_DEVICE_COPIES_H

#include "device.h"

typedef struct bo_device_copies bo_device_copies;

/* NULL: see the context's error. */
bo_device_copies *bo_device_copies_create(bo_context *context);
void bo_device_copies_destroy(bo_device_copies *copies);
/* Returns the copy on a device, or NULL if no copy has this version of the object. */
const void *bo_device_copy_find(bo_device_copies *copies, const bo_device *device, uint64_t version);
/* Writes the copy on a device, after all previously submitted work. Not allowed while work is recorded. */
bo_status bo_device_copy_write(bo_context *context, bo_device_copies *copies, bo_device *device, uint64_t version,
                               const void *host, size_t bytes);

#endif
