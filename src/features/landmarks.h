/* Nyström features: landmarks.c chooses the landmarks and factorizes their kernel matrix, functions/landmarks.c
 * computes the features. */
#ifndef BO_FEATURES_LANDMARKS_H
#define BO_FEATURES_LANDMARKS_H

#include <bochner/features.h>

/* Creates the map x → (k(x, z_1), …, k(x, z_m)) with the landmarks of a map of function LANDMARKS. A function β·φ(x) of
 * that map is α·k(x, Z) with α = Wᵀβ (bo_landmarks_multiply), which takes m instead of m² operations per row. */
bo_status bo_landmarks_bare(bo_context *context, const bo_features *features, bo_features **out);
/* True if the features are kernel values, as in a map of bo_landmarks_bare. */
bool bo_landmarks_is_bare(const bo_features *features);
/* The number of landmarks, at most the number of features; and the landmarks, count x dim. */
size_t bo_landmarks_count(const bo_features *features);
const float *bo_landmarks_rows(const bo_features *features);
/* Computes out = W in, or Wᵀ in if `transposed`, with φ(x) = W k(x, Z): features x outputs each. */
bo_status bo_landmarks_multiply(bo_context *context, const bo_features *features, bool transposed, size_t outputs,
                                const double *in, double *out);

#endif
