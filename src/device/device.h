/* The device that a context computes on: the CPU, or a GPU. This module owns memory, streams, copies and the kernels of
 * every device (cpu/kernels.h, gpu/launches.h). Modules above it select the code path of the device and refer to no
 * instruction set and no GPU vendor.
 *
 * A GPU is opened when the first context uses it, shared by all its contexts in the process, and closed when no context
 * and no object uses it. It executes work in submission order. One thread at a time submits work, between
 * bo_device_lock and bo_device_unlock. The lock is recursive. */
#ifndef BO_DEVICE_DEVICE_H
#define BO_DEVICE_DEVICE_H

#include "gpu/plugin.h"
#include "../base/base.h"

typedef struct bo_device bo_device;

/* The CPU; it needs no lock and is never closed. */
bo_device *bo_device_cpu(void);
/* The device of a context; never NULL. */
bo_device *bo_device_of(const bo_context *context);
/* "cpu", "cuda:0", … */
const char *bo_device_name(const bo_device *device);
/* True if work is executed asynchronously, in memory that host functions cannot access. */
bool bo_device_is_gpu(const bo_device *device);
static inline bool bo_context_is_on_gpu(const bo_context *context)
{
    return bo_device_is_gpu(bo_device_of(context));
}
/* Returns BO_INVALID unless the context computes on this device, which owns `what`. */
bo_status bo_device_check(bo_context *context, const bo_device *device, const char *what);
/* The operations that a test sets for a device (backend/backend.h); NULL: the default operations. */
struct bo_backend;
const struct bo_backend *bo_device_backend(const bo_device *device);
/* The properties of a GPU. */
const bo_gpu_properties *bo_device_properties(const bo_device *device);

/* Keeps a GPU open until it is released, for objects that use it without owning device memory. */
void bo_device_retain(bo_device *device);
void bo_device_release(bo_device *device);

void bo_device_lock(bo_device *device);
void bo_device_unlock(bo_device *device);
/* Returns when all submitted work is done. */
bo_status bo_device_wait(bo_context *context, bo_device *device);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Zero-filled memory for tensors. It keeps a GPU open until it is released. NULL on error (see the context's error). */
void *bo_buffer_allocate(bo_context *context, bo_device *device, size_t bytes, const char *what);
void bo_buffer_release(bo_device *device, void *buffer);
/* Copies. `read` returns when the bytes have arrived; other threads may submit work meanwhile. */
bo_status bo_buffer_write(bo_context *context, bo_device *device, void *to, const void *host, size_t bytes);
bo_status bo_buffer_read(bo_context *context, bo_device *device, void *host, const void *from, size_t bytes);
bo_status bo_buffer_copy(bo_context *context, bo_device *device, void *to, const void *from, size_t bytes);
bo_status bo_buffer_zero(bo_context *context, bo_device *device, void *to, size_t bytes);
/* The free memory of the device. */
bo_memory_bound bo_device_memory(bo_device *device);
/* Checks whether the device of the context owns an address. BO_INVALID if another GPU owns it. */
bo_status bo_device_owns(bo_context *context, const void *address, bool *out);

/* ---- recordings of GPU work --------------------------------------------------------------------------------- */

/* Work between begin and end is recorded, not executed; `replay` executes all of it. The caller holds the lock. */
bo_status bo_device_record_begin(bo_context *context, bo_device *device);
bo_status bo_device_record_end(bo_context *context, bo_device *device, void **recording);
bo_status bo_device_replay(bo_context *context, bo_device *device, void *recording);
void bo_device_forget(bo_device *device, void *recording);

/* Marks 0 to 3 in the work of the device; `elapsed` waits, and returns the seconds between two of them. */
bo_status bo_device_mark(bo_context *context, bo_device *device, int mark);
bo_status bo_device_elapsed(bo_context *context, bo_device *device, int from, int to, double *seconds);

/* ---- a stream of the caller -------------------------------------------------------------------------------------- */

/* Work of this thread goes to a stream of the caller (a cudaStream_t) instead of the stream of the device, until
 * `leave`. The lock is held until then. NULL: the stream of the device. */
bo_status bo_device_enter_stream(bo_context *context, bo_device *device, void *stream);
void bo_device_leave_stream(bo_device *device);

/* ---- multiple processes with one GPU each -------------------------------------------------------------------------
 */

/* rank_id: rank 0 creates an id, which all ranks pass to join. BO_UNSUPPORTED if the device has no all-reduce.
 * `sum` replaces floats by their sums over the ranks. */
bo_status bo_device_rank_id(bo_context *context, bo_device *device, unsigned char id[BO_RANK_ID]);
bo_status bo_device_join(bo_context *context, bo_device *device, const unsigned char id[BO_RANK_ID], int rank,
                         int size);
bo_status bo_device_sum(bo_context *context, bo_device *device, float *numbers, size_t count);

#endif
