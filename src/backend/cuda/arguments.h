/* All launches of the plugin: every header lists those of one file of device/. */
#ifndef BO_CUDA_ARGUMENTS_H
#define BO_CUDA_ARGUMENTS_H

#include "arguments_attention.h"
#include "arguments_exact.h"
#include "arguments_fit.h"
#include "arguments_hybrid.h"
#include "arguments_linear.h"
#include "arguments_matrix.h"
#include "arguments_memory.h"
#include "arguments_rows.h"
#include "arguments_sequences.h"
#include "arguments_updates.h"

#define BO_CUDA_LAUNCHES(X)                                                                                            \
    BO_CUDA_LAUNCHES_ATTENTION(X)                                                                                      \
    BO_CUDA_LAUNCHES_EXACT(X)                                                                                          \
    BO_CUDA_LAUNCHES_FIT(X)                                                                                            \
    BO_CUDA_LAUNCHES_HYBRID(X)                                                                                         \
    BO_CUDA_LAUNCHES_LINEAR(X)                                                                                         \
    BO_CUDA_LAUNCHES_MATRIX(X)                                                                                         \
    BO_CUDA_LAUNCHES_MEMORY(X)                                                                                         \
    BO_CUDA_LAUNCHES_ROWS(X)                                                                                           \
    BO_CUDA_LAUNCHES_SEQUENCES(X)                                                                                      \
    BO_CUDA_LAUNCHES_UPDATES(X)

#endif
