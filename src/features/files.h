/* How a feature map travels inside a larger file (a machine's model): tensors and metadata under a prefix. */
#ifndef BO_FEATURES_FILES_H
#define BO_FEATURES_FILES_H

#include <bochner/features.h>
#include "../io/tensors.h"

/* Fills `tensors` (room for BO_FEATURES_TENSORS) and one metadata value, JSON text to be freed with bo_free. The tensors
 * point into `features` or into *owned (freed with bo_free). */
enum { BO_FEATURES_TENSORS = 10 };
bo_status bo_features_pack(bo_context *context, const bo_features *features, bo_file_tensor *tensors, size_t *count,
                           char **json, void **owned);
/* The reverse; tensors carry the same names ("features.w", …). */
bo_status bo_features_unpack(bo_context *context, const bo_tensors *file, const char *json, bo_features **out);

/* One more owner of the same map: every owner calls bo_features_destroy, the last one's frees it. */
bo_features *bo_features_share(const bo_features *features);

#endif
