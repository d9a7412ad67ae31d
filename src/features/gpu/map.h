/* φ(x) of a feature map on a GPU, in float32: u = w x, then the functions of u. Arrays are in the memory of the GPU. */
#ifndef BO_FEATURES_GPU_MAP_H
#define BO_FEATURES_GPU_MAP_H

#include <bochner/features.h>
#include "../../device/gpu/launch.h"

/* True if GPUs have kernels for a map; check: BO_UNSUPPORTED if they have none. */
bool bo_gpu_map_exists(const bo_features *features);
bo_status bo_gpu_map_check(bo_context *context, const bo_features *features);
/* Uploads the numbers of the map, unless they are there. Before a call, and never while work is recorded. */
bo_status bo_gpu_map_prepare(bo_context *context, const bo_features *features);
/* Bytes of scratch memory of both functions below. */
size_t bo_gpu_map_bytes(const bo_features *features, size_t rows);
/* ldx and ldphi are the strides of x and phi in numbers. phi may be float64. root: φ of row i is multiplied by
 * root[i]; NULL: all 1. */
bo_status bo_gpu_map_forward(bo_context *context, const bo_features *features, size_t rows, bo_gpu_source x, size_t ldx,
                             const float *root, bo_gpu_target phi, size_t ldphi, void *scratch);
/* dx from φ and its gradient, for rows without gaps. */
bo_status bo_gpu_map_backward(bo_context *context, const bo_features *features, size_t rows, bo_gpu_source x,
                              bo_gpu_source phi, bo_gpu_source dphi, bo_gpu_target dx, void *scratch);

/* bo_features_apply on the GPU of the context, for host or device arrays. */
bo_status bo_gpu_map_apply(bo_context *context, const bo_features *features, size_t rows, const float *x, size_t ldx,
                           float *z, size_t ldz);

#endif
