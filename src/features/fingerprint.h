/* A number that tells maps apart: of everything applying one depends on. */
#ifndef BO_FEATURES_FINGERPRINT_H
#define BO_FEATURES_FINGERPRINT_H

#include <bochner/features.h>

/* Equal for equal maps, on every machine of one byte order; of a CUSTOM map only the descriptor counts. */
uint64_t bo_features_fingerprint(const bo_features *features);

#endif
