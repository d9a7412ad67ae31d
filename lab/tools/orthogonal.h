/* The orthogonalization of Muon, as the optimizer of the library computes it. */
#ifndef BO_LAB_TOOLS_ORTHOGONAL_H
#define BO_LAB_TOOLS_ORTHOGONAL_H

#include "../measurement.h"

/* Steps of Newton and Schulz: the polynomial of degree 3 converges to U Vᵀ, that of degree 5 of Muon is faster at first
 * and stays near it. */
typedef enum lab_newton_schulz { LAB_NEWTON_SCHULZ_QUINTIC, LAB_NEWTON_SCHULZ_CUBIC } lab_newton_schulz;

/* Orthogonalizes a gradient (rows x columns) by a step from zero with learning rate -1. */
bo_status lab_orthogonalize(bo_context *context, lab_newton_schulz iteration, size_t steps, size_t rows, size_t columns,
                            const float *g, float *x);

#endif
