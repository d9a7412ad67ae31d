/* Weights and maps in model.safetensors. */
#ifndef BO_MODEL_FILES_H
#define BO_MODEL_FILES_H

#include "../io/tensors.h"
#include "config.h"

/* Tensors and metadata on their way into a file. Those from `own` on have names of their own, and so has all metadata. */
typedef struct bo_package {
    bo_tensor *tensors;
    size_t count, own;
    bo_meta *metas;
    size_t meta_count;
    float *host;  /* what the tensors of weights point to */
    void **owned; /* what those of maps may point to */
    size_t owned_count;
} bo_package;
void bo_package_free(bo_package *package);

/* Adds the maps of every layer: "model.layers.N.self_attn.heads.K.features.w", …; room for bo_maps_tensors of them and as
 * many metadata as there are maps (bo_maps_count). */
size_t bo_maps_count(const bo_model *model);
bo_status bo_maps_pack(bo_context *context, const bo_model *model, bo_package *package);
/* Puts the maps of a file in place. `used`: marks its tensors. */
bo_status bo_maps_read(bo_context *context, bo_model *model, const bo_tensors *file, bool *used);
/* The maps of another model whose attention is made alike; false: it is not. */
bo_status bo_maps_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *taken);

/* All weights of a file into the model's memory, which is there by now or is made once everything fits. */
bo_status bo_model_fill(bo_context *context, bo_model *model, bo_family family, const bo_tensors *file);

#endif
