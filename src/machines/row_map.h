/* The map from rows to features, with scaling and rounding: row_map.c. */
#ifndef BO_MACHINES_ROW_MAP_H
#define BO_MACHINES_ROW_MAP_H

#include "scaler.h"

/* Scaling, feature map and rounding: the steps before the linear system. */
typedef struct bo_row_map {
    const bo_scaler *scaler; /* NULL: the rows are scaled already */
    const bo_features *phi;
    float quantum; /* features are rounded to multiples of it, at most 127 of them; a power of two; 0: not rounded */
} bo_row_map;

/* Computes z (rows x features, stride ldz) from raw rows: `project` without rounding, `apply` with rounding. */
bo_status bo_row_map_project(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs, float *z,
                             size_t ldz);
bo_status bo_row_map_apply(bo_context *context, const bo_row_map *row_map, const bo_input_view *inputs, float *z,
                           size_t ldz);
/* The mean of the features of at most BO_MACHINE_BLOCK scaled rows. It is subtracted before features are summed,
 * because sums of small numbers are more accurate. */
bo_status bo_typical_features(bo_context *context, const bo_features *phi, size_t rows, const float *scaled, size_t ldx,
                              float *out);
/* Rounds z in place; q (rows x columns, stride ldq) receives the multiples, or NULL. */
void bo_round_features(bo_context *context, float quantum, size_t rows, size_t columns, float *z, size_t ldz, int8_t *q,
                       size_t ldq);
/* True for a valid quantum: 0, or a power of two below 1. */
bool bo_is_quantum(float quantum);
/* The quantum of a map with bounded features (sin/cos or cos with bias, without importance weights); otherwise 0. */
float bo_quantum_of(const bo_features_desc *resolved);
/* The precision of a fit: the requested one, or the lowest whose rounding is negligible relative to λ. */
bo_status bo_choose_precision(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *resolved,
                              bool weighted, size_t rows, double lambda, double spectrum, bo_gram_precision *out);
/* The λ below which rounding to `quantum` would matter, for this number of rows. */
double bo_rounding_floor(float quantum, size_t rows);
/* True if λ is too small, relative to the largest eigenvalue, for float32 products. Their rounding is about 1e-7 per
 * entry and averages over rows, so it moves eigenvalues by about 1e-8 of the largest; the margin is two orders of
 * magnitude. */
static inline bool bo_needs_precision(double lambda, double spectrum)
{
    return lambda < 1e-6 * spectrum;
}
static inline bool bo_is_sections(const bo_features *phi)
{
    return bo_features_describe(phi)->function == BO_FUNCTION_SECTIONS;
}

#endif
