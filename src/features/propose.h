/* Other frequencies in place: drawn anew, or from another law with importance weights. Both change the map, which
 * nobody else may be using meanwhile; on failure it is as it was. */
#ifndef BO_FEATURES_PROPOSE_H
#define BO_FEATURES_PROPOSE_H

#include <bochner/features.h>

/* The map that bo_features_create would have made with this seed; from its proposal, where it has one. Refused for
 * resampled frequencies: the sample is gone. */
bo_status bo_features_redraw(bo_context *context, bo_features *features, uint64_t seed);

/* POSITIVE features of SOFTMAX with dense frequencies: those of the map's seed become R w₀ ~ N(0, R Rᵀ), R = factor
 * (dim x dim, on inputs after length scales and √γ), and weights √(p/q) keep E[φ(x)·φ(y)] = exp(x·y). NULL: N(0, I)
 * again. */
bo_status bo_features_propose(bo_context *context, bo_features *features, const double *factor);

/* Its R (dim x dim), as far as a float can tell; NULL: no proposal. */
const float *bo_features_proposal(const bo_features *features);

#endif
