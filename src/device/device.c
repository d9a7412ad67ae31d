/* Open devices and their work: device.h. */
#include <stdio.h>
#include <string.h>
#include "gpu/launch.h"
#include "gpu/load.h"
#include "internal.h"

/* The open GPUs of this process, since the driver has one context per GPU. The lock protects the list and `users`. */
static struct {
    pthread_mutex_t lock;
    bo_device *first;
} open_gpus = {.lock = PTHREAD_MUTEX_INITIALIZER};

bo_device *bo_device_cpu(void)
{
    static bo_device cpu = {.name = "cpu", .index = -1};
    return &cpu;
}

const char *bo_device_name(const bo_device *device)
{
    return device->name;
}

bool bo_device_is_gpu(const bo_device *device)
{
    return device->functions != NULL;
}

const struct bo_backend *bo_device_backend(const bo_device *device)
{
    return device->backend;
}

const bo_gpu_properties *bo_device_properties(const bo_device *device)
{
    return &device->properties;
}

bo_gpu *bo_device_gpu(const bo_device *device)
{
    return device->gpu;
}

const bo_gpu_functions *bo_device_functions(const bo_device *device)
{
    return device->functions;
}

bo_device *bo_device_of(const bo_context *context)
{
    bo_device *device = bo_context_attached(context);
    return device ? device : bo_device_cpu();
}

bo_status bo_device_check(bo_context *context, const bo_device *device, const char *what)
{
    const bo_device *current = bo_device_of(context);
    if (current->gpu == device->gpu) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s in the memory of %s cannot be used by a context that computes on %s", what,
                   device->name, current->name);
}

bo_status bo_gpu_check(bo_context *context, bo_gpu_error error)
{
    if (!error) return BO_OK;
    return bo_fail(context, strstr(error, "out of memory") ? BO_MEMORY : BO_UNSUPPORTED, "cuda: %s", error);
}

/* Calls a function of the plugin. */
#define CALL(device, name, ...) bo_gpu_check(context, (device)->functions->name((device)->gpu, __VA_ARGS__))

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static void close_gpu(bo_device *device)
{
    while (device->borrowed) {
        struct bo_borrowed *first = device->borrowed;
        device->borrowed = first->next;
        device->functions->release(device->gpu, first->memory);
        bo_free(first);
    }
    device->functions->close(device->gpu);
    pthread_mutex_destroy(&device->lock);
    bo_free(device);
}

static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static bo_status open_gpu(bo_context *context, int index, bo_device **out)
{
    const bo_gpu_functions *functions = bo_gpu_load(context);
    if (!functions) return BO_UNSUPPORTED;
    const int count = functions->devices();
    if (count == 0) return bo_fail(context, BO_UNSUPPORTED, "no GPU was found, or its driver is older than CUDA 13");
    if (index >= count)
        return bo_fail(context, BO_INVALID, "cuda:%d does not exist: this host has %d GPU%s, cuda:0%s", index, count,
                       count == 1 ? "" : "s", count == 1 ? "" : " and up");
    bo_device *device = bo_alloc(context, 1, sizeof *device, "a device");
    if (!device) return BO_MEMORY;
    device->functions = functions;
    device->index = index;
    snprintf(device->name, sizeof device->name, "cuda:%d", index);
    bo_status status = bo_gpu_check(context, functions->properties(index, &device->properties));
    if (status == BO_OK) status = bo_gpu_check(context, functions->open(index, &device->gpu));
    if (status != BO_OK) {
        bo_free(device);
        return status;
    }
    init_lock(&device->lock);
    *out = device;
    return BO_OK;
}

void bo_device_retain(bo_device *device)
{
    if (!bo_device_is_gpu(device)) return;
    pthread_mutex_lock(&open_gpus.lock);
    device->users++;
    pthread_mutex_unlock(&open_gpus.lock);
}

void bo_device_release(bo_device *device)
{
    if (!bo_device_is_gpu(device)) return;
    pthread_mutex_lock(&open_gpus.lock);
    const bool last = --device->users == 0;
    if (last) {
        bo_device **at = &open_gpus.first;
        while (*at != device) at = &(*at)->next;
        *at = device->next;
        close_gpu(device); /* holds the lock: a thread that reopens the GPU waits */
    }
    pthread_mutex_unlock(&open_gpus.lock);
}

bo_status bo_device_open(bo_context *context, int index, bo_device **out)
{
    bo_status status = BO_OK;
    pthread_mutex_lock(&open_gpus.lock);
    bo_device *device = open_gpus.first;
    while (device && device->index != index) device = device->next;
    if (!device && (status = open_gpu(context, index, &device)) == BO_OK) {
        device->next = open_gpus.first;
        open_gpus.first = device;
    }
    if (status == BO_OK) device->users++;
    pthread_mutex_unlock(&open_gpus.lock);
    *out = status == BO_OK ? device : NULL;
    return status;
}

size_t bo_devices_open(void)
{
    size_t count = 0;
    pthread_mutex_lock(&open_gpus.lock);
    for (const bo_device *at = open_gpus.first; at; at = at->next) count++;
    pthread_mutex_unlock(&open_gpus.lock);
    return count;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

void bo_device_lock(bo_device *device)
{
    if (bo_device_is_gpu(device)) pthread_mutex_lock(&device->lock);
}

void bo_device_unlock(bo_device *device)
{
    if (bo_device_is_gpu(device)) pthread_mutex_unlock(&device->lock);
}

static bo_status create_fence(bo_context *context, bo_device *device, void **fence)
{
    bo_device_lock(device);
    const bo_status status = CALL(device, fence, fence);
    bo_device_unlock(device);
    return status;
}

bo_status bo_device_wait(bo_context *context, bo_device *device)
{
    if (!bo_device_is_gpu(device)) return BO_OK;
    void *fence;
    BO_TRY(create_fence(context, device, &fence));
    return CALL(device, wait_for, fence);
}

bo_status bo_device_enter_stream(bo_context *context, bo_device *device, void *stream)
{
    bo_device_lock(device);
    if (!bo_device_is_gpu(device) || !stream) return BO_OK;
    const bo_status status = CALL(device, use_stream, stream);
    if (status != BO_OK) bo_device_unlock(device);
    return status;
}

void bo_device_leave_stream(bo_device *device)
{
    if (bo_device_is_gpu(device)) device->functions->use_stream(device->gpu, NULL);
    bo_device_unlock(device);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bo_status allocate(bo_context *context, bo_device *device, size_t bytes, void **out)
{
    *out = NULL;
    BO_TRY(CALL(device, allocate, bytes, out));
    bo_device_lock(device);
    const bo_status status = CALL(device, fill, *out, 0, bytes);
    if (status != BO_OK) {
        device->functions->release(device->gpu, *out);
        *out = NULL;
    }
    bo_device_unlock(device);
    return status;
}

void *bo_buffer_allocate(bo_context *context, bo_device *device, size_t bytes, const char *what)
{
    void *memory;
    if (!bo_device_is_gpu(device)) return bo_alloc(context, bytes, 1, what);
    if (allocate(context, device, bytes, &memory) == BO_OK) {
        bo_device_retain(device);
        return memory;
    }
    bo_fail(context, BO_MEMORY, "out of memory of the GPU: %s needs %zu bytes (%s)", what, bytes,
            bo_context_error(context));
    return NULL;
}

void bo_buffer_release(bo_device *device, void *buffer)
{
    if (!buffer) return;
    if (!bo_device_is_gpu(device)) {
        bo_free(buffer);
        return;
    }
    bo_device_lock(device); /* another thread may be recording */
    device->functions->release(device->gpu, buffer);
    bo_device_unlock(device);
    bo_device_release(device);
}

bo_status bo_buffer_write(bo_context *context, bo_device *device, void *to, const void *host, size_t bytes)
{
    if (!bo_device_is_gpu(device)) {
        memcpy(to, host, bytes);
        return BO_OK;
    }
    bo_device_lock(device);
    const bo_status status = CALL(device, write, to, host, bytes);
    bo_device_unlock(device);
    return status;
}

bo_status bo_buffer_read(bo_context *context, bo_device *device, void *host, const void *from, size_t bytes)
{
    if (!bo_device_is_gpu(device)) {
        memcpy(host, from, bytes);
        return BO_OK;
    }
    void *fence;
    BO_TRY(create_fence(context, device, &fence));
    return CALL(device, read, fence, host, from, bytes);
}

bo_status bo_buffer_copy(bo_context *context, bo_device *device, void *to, const void *from, size_t bytes)
{
    if (!bo_device_is_gpu(device)) {
        memmove(to, from, bytes);
        return BO_OK;
    }
    bo_device_lock(device);
    const bo_status status = CALL(device, copy, to, from, bytes);
    bo_device_unlock(device);
    return status;
}

bo_status bo_buffer_zero(bo_context *context, bo_device *device, void *to, size_t bytes)
{
    if (!bo_device_is_gpu(device)) {
        memset(to, 0, bytes);
        return BO_OK;
    }
    bo_device_lock(device);
    const bo_status status = CALL(device, fill, to, 0, bytes);
    bo_device_unlock(device);
    return status;
}

/* ---- borrowed memory --------------------------------------------------------------------------------------------- */

/* The caller holds the lock. */
static void *borrow(bo_context *context, bo_device *device, size_t bytes)
{
    struct bo_borrowed *at = device->borrowed;
    while (at && (at->lent || at->bytes < bytes)) at = at->next;
    if (!at) {
        at = bo_alloc(context, 1, sizeof *at, "memory for results of the GPU");
        if (!at) return NULL;
        at->bytes = bytes < 4096 ? 4096 : bytes;
        if (CALL(device, allocate, at->bytes, &at->memory) != BO_OK) {
            bo_free(at);
            return NULL;
        }
        at->next = device->borrowed;
        device->borrowed = at;
    }
    at->lent = true;
    return at->memory;
}

void *bo_gpu_borrow(bo_context *context, size_t bytes)
{
    bo_device *device = bo_device_of(context);
    bo_device_lock(device);
    void *memory = borrow(context, device, bytes);
    bo_device_unlock(device);
    return memory;
}

void bo_gpu_return(bo_context *context, void *memory)
{
    bo_device *device = bo_device_of(context);
    bo_device_lock(device);
    for (struct bo_borrowed *at = device->borrowed; memory && at; at = at->next)
        if (at->memory == memory) at->lent = false;
    bo_device_unlock(device);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

const bo_gpu_functions *bo_gpu_begin(bo_context *context)
{
    bo_device_lock(bo_device_of(context));
    return bo_device_of(context)->functions;
}

bo_status bo_gpu_end(bo_context *context, bo_gpu_error error)
{
    const bo_status status = bo_gpu_check(context, error);
    bo_device_unlock(bo_device_of(context));
    return status;
}

/* ---- free memory, and owners of addresses ----------------------------------------------------------------------- */

bo_memory_bound bo_device_memory(bo_device *device)
{
    bo_gpu_properties now = {.free_bytes = 0};
    if (!bo_device_is_gpu(device)) return bo_process_memory();
    const bo_gpu_error error = device->functions->properties(device->index, &now);
    return (bo_memory_bound){error ? 0 : now.free_bytes, "free memory of the GPU"};
}

bo_status bo_device_owns(bo_context *context, const void *address, bool *out)
{
    const bo_device *device = bo_device_of(context);
    *out = false;
    if (!bo_device_is_gpu(device) || !address) return BO_OK;
    const int index = device->functions->locate(device->gpu, address);
    if (index >= 0 && index != device->index)
        return bo_fail(context, BO_INVALID, "an array is in the memory of cuda:%d, but the context computes on %s",
                       index, device->name);
    *out = index >= 0;
    return BO_OK;
}

/* ---- recordings, marks, ranks ------------------------------------------------------------------------------------ */

bo_status bo_device_record_begin(bo_context *context, bo_device *device)
{
    return bo_gpu_check(context, device->functions->record_begin(device->gpu));
}

bo_status bo_device_record_end(bo_context *context, bo_device *device, void **recording)
{
    return CALL(device, record_end, recording);
}

bo_status bo_device_replay(bo_context *context, bo_device *device, void *recording)
{
    return CALL(device, replay, recording);
}

void bo_device_forget(bo_device *device, void *recording)
{
    bo_device_lock(device);
    device->functions->forget(device->gpu, recording);
    bo_device_unlock(device);
}

bo_status bo_device_mark(bo_context *context, bo_device *device, int mark)
{
    return CALL(device, mark, mark);
}

bo_status bo_device_elapsed(bo_context *context, bo_device *device, int from, int to, double *seconds)
{
    return CALL(device, elapsed, from, to, seconds);
}

bo_status bo_device_rank_id(bo_context *context, bo_device *device, unsigned char id[BO_RANK_ID])
{
    return CALL(device, rank_id, id);
}

bo_status bo_device_join(bo_context *context, bo_device *device, const unsigned char id[BO_RANK_ID], int rank, int size)
{
    return CALL(device, join, id, rank, size);
}

bo_status bo_device_sum(bo_context *context, bo_device *device, float *numbers, size_t count)
{
    bo_device_lock(device);
    const bo_status status = CALL(device, sum, numbers, count);
    bo_device_unlock(device);
    return status;
}
