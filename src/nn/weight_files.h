/* Writing weights and feature maps into a safetensors file, and reading feature maps. */
#ifndef BO_NN_WEIGHT_FILES_H
#define BO_NN_WEIGHT_FILES_H

#include <bochner/attention.h>
#include "../io/tensors.h"
#include "../tape/weights.h"

/* Tensors and metadata. The package owns the names of the tensors from index `first_owned`, and all metadata except the
 * first. */
typedef struct bo_package {
    bo_file_tensor *tensors;
    size_t count, first_owned;
    bo_meta *metadata;
    size_t meta_count;
    float *host;  /* memory of the weights' tensors */
    void **owned; /* memory of the maps' tensors, if allocated */
    size_t owned_count;
} bo_package;
void bo_package_free(bo_package *package);

/* Adds all weights, with capacity for `maps` maps, `more` tensors (bo_package_add) and BO_PACKAGE_TEXTS texts. */
enum { BO_PACKAGE_TEXTS = 8 };
bo_status bo_package_weights(bo_context *context, const bo_weights *weights, size_t maps, size_t more, bo_package *out);
/* Starts an empty package with capacity for `tensors` tensors (bo_package_add), and `bytes` of memory in `host`. */
bo_status bo_package_begin(bo_context *context, size_t tensors, size_t bytes, bo_package *out);
/* Adds a tensor. The name is copied; the data must stay valid. */
bo_status bo_package_add(bo_context *context, bo_package *package, const char *name, const bo_file_tensor *tensor);
/* Adds a text to the metadata: in a directory, a separate file next to the tensors; in a single file, a part of it.
 * Copied. */
bo_status bo_package_text(bo_context *context, bo_package *package, const char *name, const char *text);
/* Adds a map, with tensors named prefix + "features.w", … */
bo_status bo_package_map(bo_context *context, bo_package *package, const bo_features *map, const char *prefix);

/* Returns the number of maps of an attention with tensors to store. The tensors of key head k are named prefix +
 * "heads.k.features.w", … */
size_t bo_attention_maps(const bo_attention *attention);
bo_status bo_package_attention(bo_context *context, bo_package *package, const bo_attention *attention,
                               const char *prefix);

/* Reads a map from a file; `used` marks its tensors. */
bo_status bo_map_unpack(bo_context *context, const bo_tensors *file, const char *prefix, bool *used, bo_features **out);
/* True if both have the same descriptor except for the seed. */
bool bo_maps_alike(const bo_features_desc *a, const bo_features_desc *b);
/* Replaces a map by that of a file with the same descriptor. Maps without tensors stay as they are. */
bo_status bo_map_replace(bo_context *context, const bo_tensors *file, const char *prefix, bool *used,
                         bo_features **map);
/* Replaces the maps of an attention by those of a file. */
bo_status bo_attention_unpack(bo_context *context, const bo_tensors *file, const char *prefix, bool *used,
                              bo_attention *attention);

#endif
