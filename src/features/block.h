/* Features of a few rows inside a task: on the calling thread, in scratch memory from the caller, with log scales that
 * prevent overflow. Attention uses these functions. */
#ifndef BO_FEATURES_BLOCK_H
#define BO_FEATURES_BLOCK_H

#include <bochner/features.h>

/* True if the kernel is a function of γ x·y that attention can use instead of exp(s q·k), with γ as its scale: SOFTMAX,
 * LINEAR, POLYNOMIAL, TAYLOR. */
bool bo_kernel_of_products(bo_kernel kernel);
/* True if log scales may differ from 0: features of the kernels SOFTMAX and COSH, except landmarks. */
bool bo_features_scaled(const bo_features *features);
/* True if φ(x)·φ(y) is never negative: POSITIVE, HYPERBOLIC, OPRF, RELU, ELU, SELFTENSOR, EXPONENTIAL, HEDGEHOG,
 * RECTIFIER. */
bool bo_features_nonnegative(const bo_features *features);
/* True if φ(x)·φ(y) equals the kernel, a short function of γ x·y: POLYNOMIAL, TAYLOR, IDENTITY. */
bool bo_features_closed(const bo_features *features);
/* True if bo_features_block_backward may be called. False: CUSTOM without custom_backward. */
bool bo_features_differentiable(const bo_features *features);
/* Returns the factor s of u = s w·t: B for OPRF, otherwise 1. */
double bo_features_argument_scale(const bo_features *features);

/* Sets the precision of w·x and of its gradient (default: FLOAT32). */
bo_status bo_features_set_precision(bo_context *context, bo_features *features, bo_precision precision);

/* Returns the bytes of scratch memory for either function below on up to `rows` rows, a multiple of 64. */
size_t bo_features_block_bytes(const bo_features *features, size_t rows);
/* Computes φ(x_r) = exp(log_scale[r]) z_r. For scaled maps the largest |z_ri| is near 1/√features; for other maps
 * log_scale[r] = 0. The result of a row depends only on that row, not on `rows`. */
void bo_features_block(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                       float *log_scale, void *scratch);
/* Computes dx (overwritten) from dz = dL/dz with the log scales held fixed; z is the output of the forward call. */
void bo_features_block_backward(const bo_features *features, size_t rows, const float *x, size_t ldx, const float *z,
                                size_t ldz, const float *dz, size_t lddz, float *dx, size_t lddx, void *scratch);

/* Computes φ without log scales if log_scale is NULL; it overflows if log scales would be large. Otherwise like
 * bo_features_block. log_scale must be NULL for maps that are not scaled. bo_features_block_backward serves both. */
void bo_features_forward(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                         float *log_scale, void *scratch);
/* Returns the bytes of scratch memory for bo_features_forward only. */
size_t bo_features_forward_bytes(const bo_features *features, size_t rows);

/* ---- float64 ----------------------------------------------------------------------------------------------------- */

/* The plain reference of the two block functions, with the same log scales up to rounding. Rows are dense; w is the
 * output of bo_features_dense_f64. */

/* Writes the frequencies as a dense matrix in double, frequencies x dim, also for HADAMARD. */
bo_status bo_features_dense_f64(bo_context *context, const bo_features *features, double *w);
/* True if the map has a float64 reference. False: CUSTOM. */
bool bo_features_has_f64(const bo_features *features);
/* Returns the bytes of scratch memory for either function below, a multiple of 64. */
size_t bo_features_block_f64_bytes(const bo_features *features);
/* Computes φ(x_r) = exp(log_scale[r]) z_r. */
void bo_features_block_f64(const bo_features *features, const double *w, size_t rows, const double *x, double *z,
                           double *log_scale, void *scratch);
/* Computes dx (overwritten) from dz = dL/dz with the log scales held fixed; z is the output of the forward call. */
void bo_features_block_backward_f64(const bo_features *features, const double *w, size_t rows, const double *x,
                                    const double *z, const double *dz, double *dx, void *scratch);

#endif
