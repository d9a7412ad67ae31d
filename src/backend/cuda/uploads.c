/* Arrays on the device by their owner: uploads.h. */
#include "uploads.h"
#include <stdlib.h>

/* Entries are never removed: an owner that no longer exists leaves its place to one at the same address. */
typedef struct upload {
    const void *owner;
    uint64_t version;
    void *device;
    size_t bytes;
    struct upload *next;
} upload;

static upload *uploads; /* accessed between lock and unlock */

static upload *find(const void *owner)
{
    upload *at = uploads;
    while (at && at->owner != owner) at = at->next;
    return at;
}

const void *bo_cuda_uploaded(const void *owner, uint64_t version)
{
    bo_cuda_lock();
    const upload *found = find(owner);
    const void *device = found && found->device && found->version == version ? found->device : NULL;
    bo_cuda_unlock();
    return device;
}

static upload *add(bo_context *context, const void *owner)
{
    upload *made = malloc(sizeof *made);
    if (!made) {
        bo_fail(context, BO_MEMORY, "out of memory: an entry of uploaded arrays");
        return NULL;
    }
    *made = (upload){.owner = owner, .next = uploads};
    return uploads = made;
}

static bo_status place(bo_context *context, upload *at, size_t bytes)
{
    const bo_cuda_device *device = bo_cuda_open_device();
    if (at->device && at->bytes == bytes) return BO_OK;
    if (at->device) device->functions->release(device->cuda, at->device);
    at->device = NULL, at->bytes = bytes;
    return bo_cuda_check(context, device->functions->allocate(device->cuda, bytes, &at->device));
}

bo_status bo_cuda_upload(bo_context *context, const void *owner, uint64_t version, const void *host, size_t bytes)
{
    const bo_cuda_device *device = bo_cuda_open_device();
    bo_cuda_lock();
    upload *at = find(owner);
    if (!at) at = add(context, owner);
    bo_status status = at ? place(context, at, bytes) : BO_MEMORY;
    if (status == BO_OK)
        status = bo_cuda_check(context, device->functions->write(device->cuda, at->device, host, bytes));
    if (status == BO_OK) at->version = version;
    bo_cuda_unlock();
    return status;
}
