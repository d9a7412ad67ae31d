/* Sums of outer products of features in the memory of a GPU, and the linear systems with them: gpu/sums.c,
 * gpu/systems.c. All addresses are host addresses. One thread at a time uses the sums. */
#ifndef BO_MACHINES_DEVICE_SUMS_H
#define BO_MACHINES_DEVICE_SUMS_H

#include <bochner/features.h>

/* G = Σ v vᵀ over rows, with v = [φ(x), y, 1] √w of `size` = features + outputs + 1 numbers, in float64; the factor of
 * the latest system. */
typedef struct bo_device_sums bo_device_sums;

typedef struct bo_device_sums_desc {
    size_t features, outputs;
    const bo_features
        *map;      /* computed on the device if it has kernels for it (features/gpu/map.h); NULL: rows have features */
    bool precise;  /* products in float64; otherwise in float32 within runs of rows */
    float quantum; /* > 0: features are rounded to at most 127 multiples, whose products are exact */
} bo_device_sums_desc;

/* A block of at most BO_DEVICE_ROWS rows. Exactly one of x and z is set. */
typedef struct bo_device_rows {
    size_t count;
    const float *x;                /* inputs of the map, stride dim */
    const bo_features *map;        /* x: the map of the sums, or a map of the same size */
    const float *z;                /* features, stride `features` */
    const float *weighted_targets; /* count x (outputs + 1): y √w and √w */
    const float *root;             /* √w; NULL: all 1 */
} bo_device_rows;

enum { BO_DEVICE_ROWS = 4096 };

/* (ZᵀZ - weight c cᵀ + D) with diagonal D. */
typedef struct bo_device_system {
    double weight;
    const double *center;  /* c: features */
    const double *penalty; /* D: features */
} bo_device_system;

bo_status bo_device_sums_create(bo_context *context, const bo_device_sums_desc *desc, bo_device_sums **out);
void bo_device_sums_destroy(bo_device_sums *sums);
/* True if rows may have x: the device computes the map. */
bool bo_device_sums_maps(const bo_device_sums *sums);
bo_status bo_device_sums_add(bo_context *context, bo_device_sums *sums, const bo_device_rows *rows);
/* The columns of G from `features` on (size x (outputs + 1)), and its diagonal; valid until rows are added. */
bo_status bo_device_sums_margins(bo_context *context, bo_device_sums *sums, const double **columns,
                                 const double **diagonal);
/* The upper triangle of G (size x size), for sums over several processes. */
bo_status bo_device_sums_read(bo_context *context, bo_device_sums *sums, double *gram);
bo_status bo_device_sums_write(bo_context *context, bo_device_sums *sums, const double *gram);
/* y = ZᵀZ x. */
bo_status bo_device_sums_multiply(bo_context *context, bo_device_sums *sums, const double *x, double *y);
/* Factorizes a system as L Lᵀ and replaces the factor before. BO_NUMERIC as bo_cholesky (math/linalg.h). */
bo_status bo_device_sums_factorize(bo_context *context, bo_device_sums *sums, const bo_device_system *system);
/* X (features x m) := L⁻¹ X, or L⁻ᵀ X if `transposed`. */
bo_status bo_device_sums_solve(bo_context *context, bo_device_sums *sums, bool transposed, size_t m, double *x);
/* L in packed rows: features (features + 1) / 2 floats. */
bo_status bo_device_sums_factor(bo_context *context, bo_device_sums *sums, float *packed);

#endif
