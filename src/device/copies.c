/* Copies of objects on devices: copies.h. */
#include "copies.h"
#include <pthread.h>

typedef struct copy {
    bo_device *device;
    uint64_t version;
    void *memory;
    size_t bytes;
    struct copy *next;
} copy;

struct bo_device_copies {
    pthread_mutex_t lock; /* protects the list and its entries */
    copy *first;
};

bo_device_copies *bo_device_copies_create(bo_context *context)
{
    bo_device_copies *copies = bo_alloc(context, 1, sizeof *copies, "copies on devices");
    if (copies) pthread_mutex_init(&copies->lock, NULL);
    return copies;
}

void bo_device_copies_destroy(bo_device_copies *copies)
{
    if (!copies) return;
    for (copy *at = copies->first, *next; at; at = next) {
        next = at->next;
        bo_buffer_release(at->device, at->memory);
        bo_free(at);
    }
    pthread_mutex_destroy(&copies->lock);
    bo_free(copies);
}

/* Entries without memory are skipped: they do not keep a device open, so another device may have the same address. */
static copy *find(const bo_device_copies *copies, const bo_device *device)
{
    copy *at = copies->first;
    while (at && !(at->memory && at->device == device)) at = at->next;
    return at;
}

const void *bo_device_copy_find(bo_device_copies *copies, const bo_device *device, uint64_t version)
{
    pthread_mutex_lock(&copies->lock);
    const copy *found = find(copies, device);
    const void *memory = found && found->version == version ? found->memory : NULL;
    pthread_mutex_unlock(&copies->lock);
    return memory;
}

/* Returns the entry of a device with memory of this size. NULL: out of memory, and no entry exists. */
static copy *place(bo_context *context, bo_device_copies *copies, bo_device *device, size_t bytes)
{
    copy *at = find(copies, device);
    if (at && at->bytes == bytes) return at;
    if (at) bo_buffer_release(device, at->memory);
    if (at) at->memory = NULL;
    if (!at)
        for (at = copies->first; at && at->memory;) at = at->next;
    if (!at) {
        at = bo_alloc(context, 1, sizeof *at, "a copy on a device");
        if (!at) return NULL;
        at->next = copies->first;
        copies->first = at;
    }
    at->device = device;
    at->bytes = bytes;
    at->memory = bo_buffer_allocate(context, device, bytes, "a copy of an object");
    return at->memory ? at : NULL;
}

bo_status bo_device_copy_write(bo_context *context, bo_device_copies *copies, bo_device *device, uint64_t version,
                               const void *host, size_t bytes)
{
    bo_device_lock(device); /* before the list lock, since a thread that runs a graph holds it */
    pthread_mutex_lock(&copies->lock);
    copy *at = place(context, copies, device, bytes);
    bo_status status = at ? bo_buffer_write(context, device, at->memory, host, bytes) : BO_MEMORY;
    /* Another stream may use the copy next. */
    if (status == BO_OK) status = bo_device_wait(context, device);
    if (at && status == BO_OK) at->version = version;
    pthread_mutex_unlock(&copies->lock);
    bo_device_unlock(device);
    return status;
}
