/* A hash that distinguishes maps, computed from everything that the features depend on. */
#ifndef BO_FEATURES_FINGERPRINT_H
#define BO_FEATURES_FINGERPRINT_H

#include <bochner/features.h>

/* Returns the hash. It is equal for equal maps on all hosts of one byte order. For a CUSTOM map only the descriptor is
 * hashed. */
uint64_t bo_features_fingerprint(const bo_features *features);

#endif
