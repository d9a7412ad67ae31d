/* Types of the compute kernels on pairs of rows (x_i, y_j): distances, functions of distances, and gradients. */
#ifndef BO_KERNELS_PAIRS_H
#define BO_KERNELS_PAIRS_H

/* The rows y are stored in panels of BO_PAIR_ROWS rows: coordinate p of row j is panel[p * BO_PAIR_ROWS + j]. A panel
 * with fewer rows is padded with zeros. */
enum { BO_PAIR_ROWS = 64 };

/* The quantity s of a pair, with d = x - y and one weight w_p > 0 per coordinate. */
typedef enum bo_distance {
    BO_DISTANCE_SQUARES,   /* Σ w_p d_p² */
    BO_DISTANCE_ABSOLUTES, /* Σ w_p |d_p| */
    BO_DISTANCE_PRODUCT    /* Π (1 + w_p d_p²) */
} bo_distance;

/* A function f of s; a = scale √s. Values below exp(-BO_RADIAL_DEPTH) = 8.8e-27 are 0 (for RATIONAL, with a large
 * exponent): products with smaller values would be subnormal, and CPUs process subnormals slowly. */
#define BO_RADIAL_DEPTH   60.0f
#define BO_RADIAL_LARGEST 0x1.79dbcap+86f /* exp(BO_RADIAL_DEPTH) */

typedef enum bo_radial_form {
    BO_RADIAL_EXP,       /* exp(-scale s) */
    BO_RADIAL_ROOT,      /* exp(-a) */
    BO_RADIAL_MATERN32,  /* (1 + a) exp(-a) */
    BO_RADIAL_MATERN52,  /* (1 + a + a²/3) exp(-a) */
    BO_RADIAL_RATIONAL,  /* (1 + scale s)^-power */
    BO_RADIAL_RECIPROCAL /* 1 / s */
} bo_radial_form;

typedef struct bo_radial {
    bo_radial_form form;
    float scale, power;
} bo_radial;

enum { BO_PAIR_LANES = 16 }; /* partial sums of pair_sums per coordinate; a divisor of BO_PAIR_ROWS */

#endif
