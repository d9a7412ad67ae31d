/* Checks of descriptors of features, and their defaults. */
#ifndef BO_FEATURES_RESOLVE_H
#define BO_FEATURES_RESOLVE_H

#include <bochner/features.h>

/* Checks a descriptor completely and fills in the defaults. The length scales and the sample still belong to the
 * caller. */
bo_status bo_features_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved);
/* Checks the part that a closed form needs: kernel, dim, gamma, alpha, degree, length scales. */
bo_status bo_kernel_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved);
size_t bo_frequencies_of(const bo_features_desc *resolved);
/* Checks that there are enough candidates to keep `kept`, and that they fit in memory. */
bo_status bo_candidates_check(bo_context *context, size_t kept, size_t dim, size_t candidates);

#endif
