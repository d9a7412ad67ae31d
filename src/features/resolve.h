/* What a descriptor of features means: its defaults, and what is wrong with it. */
#ifndef BO_FEATURES_RESOLVE_H
#define BO_FEATURES_RESOLVE_H

#include <bochner/features.h>

/* Checks everything there is to check about a descriptor and fills in the defaults. The length scales and the
 * sample stay the caller's. */
bo_status bo_features_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved);
/* The part that a closed form needs: kernel, dim, gamma, alpha, degree, length scales. */
bo_status bo_kernel_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved);
size_t bo_frequencies_of(const bo_features_desc *resolved);
/* Enough of them to keep some, and not more than memory holds. */
bo_status bo_candidates_check(bo_context *context, size_t kept, size_t dim, size_t candidates);

#endif
