/** @file
 * The devices on which everything is computed: the CPU, and NVIDIA GPUs. Experimental tier.
 *
 * A context computes on the CPU until bo_context_use_device() is called, and then every function that is given this
 * context takes the path of its device. Contexts on the CPU and on several GPUs work side by side in one process.
 * Files, seeds and results are those of the CPU, up to rounding; a GPU gives the same bits in every run.
 *
 * **Arrays.** Functions on arrays (bo_features_apply(), bo_attention_forward(), bo_attention_backward(), …) take arrays
 * of the host, which they copy to the GPU and back, or arrays in the memory of the GPU (bo_device_allocate(), or any
 * other allocation of CUDA), which they use in place. Kernel machines are fitted on the GPU by the primal solver with
 * the ridge loss, and predict there if their features have a form that GPUs compute; other solvers and losses are
 * refused. What a GPU has no kernels for is computed on the CPU if its arrays are those of the host, and else refused
 * by name: maps that are not linear in φ(w·x), RIDGE attention, calibration.
 *
 * **Objects.** Feature maps, attentions and kernel machines are immutable and serve contexts on any device: each GPU
 * gets a copy of their numbers when it uses them first, which the object owns and frees. Weights, graphs, models,
 * networks and sessions are in the memory of the device of the context that they were created with; a context on
 * another device is refused.
 *
 * **Memory.** A GPU is opened by the first context that uses it, and closed when neither a context nor an object needs
 * it. If its memory is used up, calls return BO_MEMORY, and objects keep their contents. The device that is current for
 * CUDA in the calling thread is the same before and after every call.
 *
 * GPUs are supported by a plugin, libbochner_cuda.so, which is opened when a GPU is used for the first time.
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
    char name[128];       /**< the name of the product */
    int major;            /**< compute capability, first part */
    int minor;            /**< compute capability, second part */
    int processors;       /**< number of multiprocessors */
    uint64_t bytes;       /**< memory */
    uint64_t free_bytes;  /**< memory that is not in use */
    uint64_t reserved[4]; /**< zero */
} bo_device_info;

/** Counts the GPUs that can be used.
 *
 * @param context       the context
 * @param[out] count    the number; 0 if there is no plugin or no driver (the error message of the context says why)
 * @param[out] plugin the path of the plugin for GPUs, which is valid until the process ends; NULL if there is no plugin
 *     that can be used; or NULL
 * @return BO_OK
 */
BO_API bo_status bo_device_count(bo_context *context, size_t *count, const char **plugin);

/** Describes a GPU.
 *
 * @param context    the context
 * @param index      its number, from 0
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

/* These functions return when their work is done. They do not wait for streams of the caller. */

/** Allocates memory of the device of a context: that of the host on the CPU.
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
 * @param[out] to    memory of the device
 * @param from       memory of the host
 * @param bytes      the number of bytes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_device_write(bo_context *context, void *to, const void *from, size_t bytes);

/** Copies from the device to the host, after all work that was submitted before.
 *
 * @param context    the context
 * @param[out] to    memory of the host
 * @param from       memory of the device
 * @param bytes      the number of bytes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_device_read(bo_context *context, void *to, const void *from, size_t bytes);

/** Copies within the device. The arrays do not overlap.
 *
 * @param context    the context
 * @param[out] to    memory of the device
 * @param from       memory of the device
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
