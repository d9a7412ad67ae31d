/* All launches of the plugin: each header lists the launches of some files in cuda/. */
#ifndef BO_DEVICE_GPU_LAUNCHES_H
#define BO_DEVICE_GPU_LAUNCHES_H

#include "attention.h"
#include "exact.h"
#include "fit.h"
#include "hybrid.h"
#include "linear.h"
#include "matrix.h"
#include "memory.h"
#include "rows.h"
#include "sequences.h"
#include "updates.h"

#define BO_GPU_LAUNCHES(X)                                                                                             \
    BO_GPU_LAUNCHES_ATTENTION(X)                                                                                       \
    BO_GPU_LAUNCHES_EXACT(X)                                                                                           \
    BO_GPU_LAUNCHES_FIT(X)                                                                                             \
    BO_GPU_LAUNCHES_HYBRID(X)                                                                                          \
    BO_GPU_LAUNCHES_LINEAR(X)                                                                                          \
    BO_GPU_LAUNCHES_MATRIX(X)                                                                                          \
    BO_GPU_LAUNCHES_MEMORY(X)                                                                                          \
    BO_GPU_LAUNCHES_ROWS(X)                                                                                            \
    BO_GPU_LAUNCHES_SEQUENCES(X)                                                                                       \
    BO_GPU_LAUNCHES_UPDATES(X)

#endif
