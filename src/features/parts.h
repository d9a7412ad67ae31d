/* A feature map as plain numbers, for devices that compute it with their own kernels. */
#ifndef BO_FEATURES_PARTS_H
#define BO_FEATURES_PARTS_H

#include <bochner/features.h>

/* How features follow from u = w x, x a row and w with all factors of the inputs. Maps without frequencies have the
 * identity times these factors as w. m: the number of rows of w. */
typedef enum bo_map_form {
    BO_MAP_NONE = 0, /* none of these */
    BO_MAP_EXP,      /* exp(u + offset + common + norm |t|²/2 + constant) */
    BO_MAP_EXP_BOTH, /* the same for u, then for -u: 2 m features */
    BO_MAP_SINCOS,   /* factor weight [cos u, sin u], times exp(norm |t|²/2): 2 m features */
    BO_MAP_RELU,     /* factor weight max(u, 0) */
    BO_MAP_ELU,      /* elu(u) + 1 */
    BO_MAP_IDENTITY, /* u */
    BO_MAP_HEDGEHOG  /* softmax([u, -u]): 2 m features */
} bo_map_form;

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
