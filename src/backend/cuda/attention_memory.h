/* What the engines GLA and DELTA share on the library's side. */
#ifndef BO_BACKEND_CUDA_ATTENTION_MEMORY_H
#define BO_BACKEND_CUDA_ATTENTION_MEMORY_H

#include "attention.h"

/* The largest dim that the kernels have shared memory for. */
enum { BO_CUDA_MEMORY_MOST_DIM = 256 };
const char *bo_cuda_memory_refuses(const bo_attention *attention);

/* True if about one token per sequence continues from a state: memory_step computes it. */
bool bo_cuda_memory_is_step(const bo_cuda_attention *call);

/* The work memory that both engines need: chunks have `chunk` tokens, numbers of their matrices have `bytes` bytes. */
bo_cuda_memory bo_cuda_memory_of(const bo_attention *attention, const bo_cuda_attention *call, int chunk, size_t bytes,
                                 bool backward, bo_carver *carver);
/* Tiles of `chunk` tokens, at most (device/attention.cuh). */
size_t bo_cuda_memory_tiles(const bo_cuda_rows *rows, int chunk);

#endif
