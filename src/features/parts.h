/* A feature map as plain numbers, for devices that compute it with their own kernels. */
#ifndef BO_FEATURES_PARTS_H
#define BO_FEATURES_PARTS_H

#include <bochner/features.h>
#include "../device/gpu/maps.h"

/* |t|²/2 = ½ Σ_j square_j x_j². */
typedef struct bo_map_parts {
    bo_map_form form;
    size_t dim, frequencies, features; /* columns of x, m, length of φ */
    bool scaled, weighted, shifted;    /* it has log scales; weights; offsets */
    float norm;                        /* -1, 0 or 1 */
    float factor, constant;
} bo_map_parts;

bo_map_parts bo_features_parts(const bo_features *features);
/* Writes w (m x dim), offsets and weights (m; 0 and 1 if there are none), square (dim) and *common. */
bo_status bo_features_numbers(bo_context *context, const bo_features *features, float *w, float *offset, float *weight,
                              float *square, float *common);

#endif
