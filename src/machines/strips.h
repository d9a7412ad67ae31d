/* The kernel matrix of many rows in float32, and its products: strips.c. */
#ifndef BO_MACHINES_STRIPS_H
#define BO_MACHINES_STRIPS_H

#include <bochner/features.h>
#include "../base/tiny.h"

/* The upper triangle in strips: strip s has the rows from s BO_STRIP_ROWS on and all columns from its first row on. The
 * first `kept` strips are in memory; the remaining strips are computed again in each product. */
enum { BO_STRIP_ROWS = BO_SIZE(512, 8), BO_STRIP_COLUMNS = BO_SIZE(256, 4) };
typedef struct bo_strips {
    bo_context *context;
    const bo_features_desc *map;
    const float *x; /* rows x map->dim */
    size_t rows, outputs, kept;
    float *store;      /* the strips in memory, one after the other */
    float *again;      /* a strip that is not */
    float *direct;     /* products of the blocks of a strip: blocks x outputs x BO_STRIP_ROWS */
    float *transposed; /* products of their transposes: blocks x outputs x BO_STRIP_COLUMNS */
} bo_strips;

/* Bytes of all strips. */
double bo_strips_bytes(double rows);
/* Computes strips of the kernel of phi, a map of sections, as far as `memory` bytes allow. Products have at most
 * `outputs` columns. */
bo_status bo_strips_create(bo_context *context, const bo_features *phi, size_t outputs, double memory, bo_strips *out);
void bo_strips_free(bo_strips *strips);
/* Computes out = v K for `count` rows of v (count x rows; count <= outputs), in float32 within blocks of the matrix and
 * in double across blocks. `step` is reported as progress. */
bo_status bo_strips_multiply(bo_strips *strips, size_t count, const float *v, double *out, int step);

#endif
