/* Feature maps inside a larger file, such as a kernel machine: tensors and metadata under a prefix. */
#ifndef BO_FEATURES_FILES_H
#define BO_FEATURES_FILES_H

#include <bochner/features.h>
#include "../io/tensors.h"

/* Fills `tensors` (capacity BO_FEATURES_TENSORS) and one metadata value, JSON text to be freed with bo_free. The
 * tensors point into `features` or into *owned (freed with bo_free). */
enum { BO_FEATURES_TENSORS = 10 };
bo_status bo_features_pack(bo_context *context, const bo_features *features, bo_file_tensor *tensors, size_t *count,
                           char **json, void **owned);
/* Reads what bo_features_pack produced; the tensors have the same names ("features.w", …). */
bo_status bo_features_unpack(bo_context *context, const bo_tensors *file, const char *json, bo_features **out);

/* Adds an owner to the map. Every owner calls bo_features_destroy; the last call frees the map. */
bo_features *bo_features_share(const bo_features *features);

#endif
