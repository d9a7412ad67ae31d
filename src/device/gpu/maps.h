/* Feature maps and the transforms of rows before them, as computed by device kernels. */
#ifndef BO_DEVICE_GPU_MAPS_H
#define BO_DEVICE_GPU_MAPS_H

/* Features as functions of u = w x, where x is a row and w includes all input factors. For maps without frequencies, w
 * is the identity times these factors. m: the number of rows of w. */
typedef enum bo_map_form {
    BO_MAP_NONE = 0, /* no supported form */
    BO_MAP_EXP,      /* exp(u + offset + common + norm |t|²/2 + constant) */
    BO_MAP_EXP_BOTH, /* the same for u, then for -u: 2 m features */
    BO_MAP_SINCOS,   /* factor weight [cos u, sin u], times exp(norm |t|²/2): 2 m features */
    BO_MAP_RELU,     /* factor weight max(u, 0) */
    BO_MAP_ELU,      /* elu(u) + 1 */
    BO_MAP_IDENTITY, /* u */
    BO_MAP_HEDGEHOG, /* softmax([u, -u]): 2 m features */
    BO_MAP_COS       /* factor weight cos(u + offset); not in attention */
} bo_map_form;

typedef enum bo_row_transform_type {
    BO_ROW_TRANSFORM_NONE,   /* t = x */
    BO_ROW_TRANSFORM_UNIT,   /* t = σ ∘ x / (|x| + e) */
    BO_ROW_TRANSFORM_MATRIX, /* t = M x */
    BO_ROW_TRANSFORM_AFFINE  /* t = W x + b; queries and keys may have different W and b */
} bo_row_transform_type;

#endif
