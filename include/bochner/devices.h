/** @file
 * The devices on which models are trained and run: the CPU, and NVIDIA GPUs. Experimental tier.
 *
 * A context uses the CPU until bo_context_use_device() is called. Models, networks and weights that are created or
 * loaded with it afterwards live in the memory of its device. Files, seeds and results are those of the CPU, up to
 * rounding. Kernel machines are fitted on the device, too, by the primal solver with the ridge loss; other solvers and
 * losses are refused. Their predictions, the functions of attention.h and calibrations always compute on the CPU.
 *
 * GPUs are supported by a plugin, libbochner_cuda.so, which is opened when a GPU is asked for. A process uses one GPU.
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
typedef struct bo_device {
    char name[128];       /**< the name of the product */
    int major;            /**< compute capability, first part */
    int minor;            /**< compute capability, second part */
    int processors;       /**< number of multiprocessors */
    uint64_t bytes;       /**< memory */
    uint64_t free_bytes;  /**< memory that is not in use */
    uint64_t reserved[4]; /**< zero */
} bo_device;

/** Counts the GPUs that can be used.
 *
 * @param context      the context
 * @param[out] count   the number; 0 if there is no plugin or no driver (the error message of the context says why)
 * @return BO_OK
 */
BO_API bo_status bo_device_count(bo_context *context, size_t *count);

/** Returns the path of the plugin for GPUs.
 *
 * @param context   the context
 * @return the path, which is valid until the process ends; NULL if there is no plugin that can be used (the error
 *     message of the context says why)
 */
BO_API const char *bo_device_plugin(bo_context *context);

/** Describes a GPU.
 *
 * @param context    the context
 * @param index      its number, from 0
 * @param[out] out   its description
 * @return BO_OK; BO_UNSUPPORTED if there is no plugin; BO_INVALID if there is no such GPU
 */
BO_API bo_status bo_device_describe(bo_context *context, size_t index, bo_device *out);

/** Chooses the device of a context.
 *
 * @param context   the context
 * @param name      "cpu"; "cuda" or "cuda:N" for GPU number N (default: 0); "auto": a GPU if there is one, else the CPU
 * @return BO_OK; BO_INVALID if the name is unknown or this process uses another GPU; BO_UNSUPPORTED if there is no GPU
 *     or no plugin
 */
BO_API bo_status bo_context_use_device(bo_context *context, const char *name);

/** Returns the device of a context.
 *
 * @param context   the context
 * @return "cpu" or "cuda"; static memory
 */
BO_API const char *bo_context_device(const bo_context *context);

/** Queries the memory that models of a context can use.
 *
 * @param context    the context
 * @param[out] out   on the CPU as from bo_memory_limit(); on a GPU its free memory, with `source` "free memory of the GPU"
 */
BO_API void bo_context_memory(const bo_context *context, bo_memory_bound *out);

#endif

#ifdef __cplusplus
}
#endif
#endif
