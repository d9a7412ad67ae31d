/* Features of a few rows inside a task: on the calling thread, in the caller's scratch, with log scales so that nothing
 * overflows. Attention is built on this. */
#ifndef BO_FEATURES_BLOCK_H
#define BO_FEATURES_BLOCK_H

#include <bochner/features.h>

/* A function of γ x·y that attention may have in place of exp(s q·k), so that γ is its scale: SOFTMAX, LINEAR, POLYNOMIAL,
 * TAYLOR. */
bool bo_kernel_of_products(bo_kernel kernel);
/* Log scales may differ from 0: φ of the kernels SOFTMAX and COSH. */
bool bo_features_scaled(const bo_features *features);
/* φ(x)·φ(y) is never negative: POSITIVE, HYPERBOLIC, OPRF, RELU, ELU, SELFTENSOR, EXPONENTIAL, HEDGEHOG, RECTIFIER. */
bool bo_features_nonnegative(const bo_features *features);
/* φ(x)·φ(y) is the kernel itself, a short function of γ x·y: POLYNOMIAL, TAYLOR, IDENTITY. */
bool bo_features_closed(const bo_features *features);
/* bo_features_block_backward may be called: false for CUSTOM without custom_backward. */
bool bo_features_differentiable(const bo_features *features);
/* The function takes u = B w·t: OPRF's B, else 1. */
double bo_features_argument_scale(const bo_features *features);

/* Bytes of scratch for either function below on up to `rows` rows, a multiple of 64. */
size_t bo_features_block_bytes(const bo_features *features, size_t rows);
/* φ(x_r) = exp(log_scale[r]) z_r, the largest |z_ri| near 1/√features for scaled maps; log_scale[r] = 0 for the others.
 * A row's result depends on that row alone, not on `rows`. */
void bo_features_block(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                       float *log_scale, void *scratch);
/* dx (overwritten) from dz = dL/dz with the log scales held fixed, z as the forward call left it. */
void bo_features_block_backward(const bo_features *features, size_t rows, const float *x, size_t ldx, const float *z,
                                size_t ldz, const float *dz, size_t lddz, float *dx, size_t lddx, void *scratch);

/* φ itself, which overflows where log scales would be large: log_scale is NULL. Else as bo_features_block; for maps that are
 * not scaled it must be NULL. bo_features_block_backward serves either. */
void bo_features_forward(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                         float *log_scale, void *scratch);
/* Bytes of scratch for that alone. */
size_t bo_features_forward_bytes(const bo_features *features, size_t rows);

#endif
