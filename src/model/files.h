/* Models as folders and files; weights and maps in model.safetensors. */
#ifndef BO_MODEL_FILES_H
#define BO_MODEL_FILES_H

#include "../nn/weight_files.h"
#include "config.h"

/* "folder/name", freed with bo_free. */
char *bo_model_path(bo_context *context, const char *folder, const char *name);
/* A folder with a config.json, or one file with it: no adapter. */
bool bo_model_is_whole(bo_context *context, const char *path);

/* Puts the maps of a file in place. `used`: marks its tensors. */
bo_status bo_maps_read(bo_context *context, bo_model *model, const bo_tensors *file, bool *used);
/* The maps of another model whose attention is made alike; false: it is not. */
bo_status bo_maps_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *taken);
/* Likewise of its MLP; graphs are to be recorded after it. */
bo_status bo_mlp_map_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *taken);

/* All weights of a file into the model's memory, which is there by now or is made once everything fits. */
bo_status bo_model_fill(bo_context *context, bo_model *model, bo_family family, const bo_tensors *file);

#endif
