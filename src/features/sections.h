/* Sections of an exact kernel, for kernel machines: functions/sections.c. */
#ifndef BO_FEATURES_SECTIONS_H
#define BO_FEATURES_SECTIONS_H

#include <bochner/features.h>

/* Checks a descriptor whose function is SECTIONS and whose features are the rows, and fills in defaults. */
bo_status bo_sections_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved);
/* The map x → (k(x, x_1), …, k(x, x_rows)); x: rows x dim, copied. */
bo_status bo_sections_create(bo_context *context, const bo_features_desc *desc, size_t rows, const float *x,
                             bo_features **out);
/* The values of that map for `rows` rows, in double: k is rows x features. */
bo_status bo_sections_matrix(bo_context *context, const bo_features *features, size_t rows, const float *x, size_t ldx,
                             double *k, size_t ldk);
/* The rows of that map: features x dim. */
const float *bo_sections_rows(const bo_features *features);
/* k(x, x) */
double bo_sections_diagonal(const bo_features *features, const float *x);
/* The gradients of f_t(x) = Σ_i alpha[i * outputs + t] k(x, x_i) by x, for every kernel: sections_gradient.c. gradient:
 * rows x outputs x dim. */
bo_status bo_sections_gradient(bo_context *context, const bo_features *features, size_t rows, const float *x,
                               size_t ldx, size_t outputs, const float *alpha, float *gradient);

#endif
