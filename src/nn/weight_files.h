/* Weights and feature maps on their way into a safetensors file, and maps on their way out. */
#ifndef BO_NN_WEIGHT_FILES_H
#define BO_NN_WEIGHT_FILES_H

#include <bochner/attention.h>
#include "../io/tensors.h"
#include "../tape/weights.h"

/* Tensors and metadata. Those from `own` on have names of their own, and so has all metadata but the first. */
typedef struct bo_package {
    bo_file_tensor *tensors;
    size_t count, own;
    bo_meta *metas;
    size_t meta_count;
    float *host;  /* what the tensors of weights point to */
    void **owned; /* what those of maps may point to */
    size_t owned_count;
} bo_package;
void bo_package_free(bo_package *package);

/* All weights, with room for `maps` maps, `more` tensors (bo_package_add) and BO_PACKAGE_TEXTS texts. */
enum { BO_PACKAGE_TEXTS = 4 };
bo_status bo_package_weights(bo_context *context, const bo_weights *weights, size_t maps, size_t more, bo_package *out);
/* One more, under a name of its own; its data must stay where it is. */
bo_status bo_package_add(bo_context *context, bo_package *package, const char *name, const bo_file_tensor *tensor);
/* A text in the metadata: a file that lies beside the tensors in a folder and within them in memory. Copied. */
bo_status bo_package_text(bo_context *context, bo_package *package, const char *name, const char *text);
/* A map, its tensors called prefix + "features.w", … */
bo_status bo_package_map(bo_context *context, bo_package *package, const bo_features *map, const char *prefix);

/* Maps of an attention that have something to store; those of key head k are called prefix + "heads.k.features.w", … */
size_t bo_attention_maps(const bo_attention *attention);
bo_status bo_package_attention(bo_context *context, bo_package *package, const bo_attention *attention,
                               const char *prefix);

/* A map of a file; `used` marks its tensors. */
bo_status bo_map_unpack(bo_context *context, const bo_tensors *file, const char *prefix, bool *used, bo_features **out);
/* Made by the same descriptor, but for the seed. */
bool bo_maps_alike(const bo_features_desc *a, const bo_features_desc *b);
/* The map of a file takes the place of one that is made alike, unless there is nothing to store. */
bo_status bo_map_replace(bo_context *context, const bo_tensors *file, const char *prefix, bool *used,
                         bo_features **map);
/* Maps of a file take the place of an attention's. */
bo_status bo_attention_unpack(bo_context *context, const bo_tensors *file, const char *prefix, bool *used,
                              bo_attention *attention);

#endif
