/* What the engines GLA and DELTA share on the library's side. */
#ifndef BO_ATTENTION_GPU_MEMORY_H
#define BO_ATTENTION_GPU_MEMORY_H

#include "engine.h"

/* The largest dim that the kernels have shared memory for. */
enum { BO_GPU_MEMORY_MOST_DIM = 256 };
const char *bo_gpu_memory_refuses(const bo_attention *attention, const bo_gpu_properties *gpu);

/* True if about one token per sequence continues from a state: memory_step computes it. */
bool bo_gpu_memory_is_step(const bo_gpu_attention *call);

/* The work memory that both engines need: chunks have `chunk` tokens, numbers of their matrices have `bytes` bytes. */
bo_gpu_memory bo_gpu_memory_of(const bo_attention *attention, const bo_gpu_attention *call, int chunk, size_t bytes,
                               bool backward, bo_carver *carver);
/* Tiles of `chunk` tokens, at most (device/cuda/attention.cuh). */
size_t bo_gpu_memory_tiles(const bo_gpu_rows *rows, int chunk);

#endif
