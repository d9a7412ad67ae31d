/* Kernel matrices and gradients of kernel expansions in float32, for kernel machines on many rows.
 *
 * The shift-invariant kernels (RBF, LAPLACIAN, CAUCHY, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC) are computed
 * from the differences of the rows as given, without cancellation: k(x, x) = 1 exactly, k(x, y) = k(y, x) bit for bit,
 * and the absolute error of a value is below 1e-6 for up to a hundred coordinates (it grows as the root of their
 * number). Values below 1e-26 may be 0. Results do not depend on the number of threads. */
#ifndef BO_FEATURES_KERNEL_BLOCK_H
#define BO_FEATURES_KERNEL_BLOCK_H

#include <bochner/features.h>

/* Computes k(i * ldk + j) = k(x_i, y_j) for `rows` rows x_i = x + i * ldx and `columns` rows y_j = y + j * ldy of
 * map->dim numbers; of the map, only the members that bo_kernel_matrix uses matter. If x and y are the same rows
 * (pointer, stride and number), one triangle is computed and mirrored. Other kernels than those above are computed in
 * float64 by bo_kernel_matrix and rounded. Needs memory for a copy of y. */
bo_status bo_kernel_block(bo_context *context, const bo_features_desc *map, size_t rows, const float *x, size_t ldx,
                          size_t columns, const float *y, size_t ldy, float *k, size_t ldk);

/* Computes the gradients of f_o(x) = Σ_j alpha[j * outputs + o] k(x, y_j), j < columns, at `rows` rows x_i:
 * gradient[(i * outputs + o) * dim + p] = ∂f_o/∂x_p (x_i). x_p is the coordinate as given: the derivative includes the
 * length scale and gamma. Terms whose derivative does not exist count as 0: those with x_i = y_j for MATERN12, and
 * coordinate p of those with x_ip = y_jp for LAPLACIAN. Refuses kernels that are not shift-invariant. */
bo_status bo_kernel_gradient(bo_context *context, const bo_features_desc *map, size_t rows, const float *x, size_t ldx,
                             size_t columns, const float *y, size_t ldy, size_t outputs, const float *alpha,
                             float *gradient);

#endif
