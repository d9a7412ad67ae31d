/* Properties of kernels and maps that have no public function. */
#ifndef BO_FEATURES_FACTS_H
#define BO_FEATURES_FACTS_H

#include <bochner/features.h>

bool bo_kernel_is_scaled(bo_kernel kernel);                  /* BO_FEATURES_TRAIT_SCALED */
bool bo_kernel_is_learned(bo_kernel kernel);                 /* BO_FEATURES_TRAIT_LEARNED */
bool bo_features_needs_length(const bo_features_desc *desc); /* BO_FEATURES_TRAIT_LENGTH */
/* The memory of a map before it is created, with the same checks as bo_features_create. */
bo_status bo_features_estimate(bo_context *context, const bo_features_desc *desc, size_t *bytes);
/* One factor √(p/q) per frequency, by which its features are multiplied, at least the smallest normal float; NULL: all
 * 1. */
const float *bo_features_importance(const bo_features *features);
/* bo_features_backward in float64; BO_UNSUPPORTED for CUSTOM. */
bo_status bo_features_backward_f64(bo_context *context, const bo_features *features, size_t rows, const double *x,
                                   size_t ldx, const double *dz, size_t lddz, double *dx, size_t lddx,
                                   double *dlength_scales, double *dfrequencies);

#endif
