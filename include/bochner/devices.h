/** @file
 * Compute devices: the CPU, and NVIDIA GPUs. Experimental tier.
 *
 * A context computes on the CPU until bo_context_use_device() is called. From then on, every function that is called
 * with this context computes on its device. One process can use contexts on the CPU and on several GPUs. Files, seeds
 * and results are the same as on the CPU, up to rounding. Results on a GPU are bitwise reproducible.
 *
 * **Arrays.** Functions on arrays (bo_features_apply(), bo_attention_forward(), bo_attention_backward(), …) accept host
 * arrays, which they copy to the GPU and back, or arrays in GPU memory (bo_device_allocate(), or any other CUDA
 * allocation), which they use in place. On the GPU, kernel machines are fitted by the primal solver with the ridge
 * loss; other solvers and losses return an error. They predict on the GPU if it supports their features. Functions
 * without GPU kernels (maps that are not linear in φ(w·x), RIDGE attention, calibration) run on the CPU for host
 * arrays, and return an error for GPU arrays.
 *
 * **Objects.** Feature maps, attentions and kernel machines are immutable and can be used by contexts on any
 * device. On first use, a GPU gets a copy of their data, which the object owns and frees. Weights, graphs, models,
 * networks and sessions are in the device memory of the context that created them; functions return an error for
 * a context on another device.
 *
 * **Memory.** A GPU is opened by the first context that uses it, and closed when no context and no object needs it.
 * If its memory is exhausted, calls return BO_MEMORY, and objects keep their contents. Every call preserves the current
 * CUDA device of the calling thread.
 *
 * A plugin, libbochner_cuda.so, supports GPUs. It is opened when a GPU is used for the first time.
 */
#ifndef BOCHNER_DEVICES_H
#define BOCHNER_DEVICES_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef BO_EXPERIMENTAL

/* ==== Experimental ================================================================================================ */

/** A GPU. */
typedef struct bo_device_info {
    char name[128];       /**< product name */
    int major;            /**< compute capability, first part */
    int minor;            /**< compute capability, second part */
    int processors;       /**< number of multiprocessors */
    uint64_t bytes;       /**< memory */
    uint64_t free_bytes;  /**< free memory */
    uint64_t reserved[4]; /**< zero */
} bo_device_info;

/** Counts the usable GPUs.
 *
 * @param context       the context
 * @param[out] count    the number; 0 if there is no plugin or no driver (the error message of the context says why)
 * @param[out] plugin  the path of the GPU plugin, valid until the process ends; NULL if there is no usable plugin. The
 *     argument may be NULL
 * @return BO_OK
 */
BO_API bo_status bo_device_count(bo_context *context, size_t *count, const char **plugin);

/** Describes a GPU.
 *
 * @param context    the context
 * @param index      its index, from 0
 * @param[out] out   its description
 * @return BO_OK; BO_UNSUPPORTED if there is no plugin; BO_INVALID if there is no such GPU
 */
BO_API bo_status bo_device_describe(bo_context *context, size_t index, bo_device_info *out);

/** Chooses the device of a context.
 *
 * @param context   the context
 * @param name      "cpu"; "cuda" or "cuda:N" for GPU number N (default: 0); "auto": a GPU if there is one, else the CPU
 * @return BO_OK; BO_INVALID if the name is unknown or there is no such GPU; BO_UNSUPPORTED if there is no GPU or no
 *     plugin. The device is unchanged if the call fails
 */
BO_API bo_status bo_context_use_device(bo_context *context, const char *name);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* These functions return when their work is done. They do not synchronize with streams of the caller. */

/** Allocates device memory of a context (on the CPU, host memory).
 *
 * @param context    the context
 * @param bytes      the number of bytes
 * @param[out] out   the address, aligned to 64 bytes; filled with zeros. Release it with bo_device_free()
 * @return BO_OK; BO_MEMORY if there is not enough
 */
BO_API bo_status bo_device_allocate(bo_context *context, size_t bytes, void **out);

/** Releases memory of bo_device_allocate(), after all work that uses it.
 *
 * @param context   a context on the same device
 * @param memory    the address, or NULL
 */
BO_API void bo_device_free(bo_context *context, void *memory);

/** Copies from the host to the device. The host's array may be changed when the function returns.
 *
 * @param context    the context
 * @param[out] to    device memory
 * @param from       host memory
 * @param bytes      the number of bytes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_device_write(bo_context *context, void *to, const void *from, size_t bytes);

/** Copies from the device to the host, after all work that was submitted before.
 *
 * @param context    the context
 * @param[out] to    host memory
 * @param from       device memory
 * @param bytes      the number of bytes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_device_read(bo_context *context, void *to, const void *from, size_t bytes);

/** Copies within the device. The arrays do not overlap.
 *
 * @param context    the context
 * @param[out] to    device memory
 * @param from       device memory
 * @param bytes      the number of bytes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_device_copy(bo_context *context, void *to, const void *from, size_t bytes);

/** Waits until all work that was submitted to the device of a context is done.
 *
 * @param context   the context
 * @return BO_OK; an error if some of that work failed
 */
BO_API bo_status bo_device_synchronize(bo_context *context);

#endif

#ifdef __cplusplus
}
#endif
#endif
