/* Models as directories and files: weights and feature maps in model.safetensors. */
#ifndef BO_MODEL_FILES_H
#define BO_MODEL_FILES_H

#include "../nn/weight_files.h"
#include "config.h"

/* Returns "directory/name", freed with bo_free. */
char *bo_model_path(bo_context *context, const char *directory, const char *name);
/* True if the path is a directory with a config.json or a file that contains one, and not an adapter. */
bool bo_model_is_whole(bo_context *context, const char *path);

/* True if the directory has a file of this name. */
bool bo_model_holds(const char *directory, const char *name);
/* Opens the weights of a directory: model.safetensors, else the shards that model.safetensors.index.json lists. */
bo_status bo_model_open_weights(bo_context *context, const char *directory, bo_tensors **out);

/* Reads the special tokens of a directory, or of a single file (image, else NULL), from config.json and the companions.
 */
bo_status bo_model_read_specials(bo_context *context, bo_model *model, const char *directory, const bo_tensors *image);
/* Replaces the chat template of a base by the one in the adapter's directory, if present. */
bo_status bo_model_read_template(bo_context *context, bo_model *model, const char *directory);
/* Warns if companions are not those that were written with the tensors. */
bo_status bo_model_compare_companions(bo_context *context, const char *directory, const bo_tensors *file,
                                      const bo_model *model);
bo_status bo_model_write_companion(bo_context *context, const bo_model *model, bo_companion which, bo_output *output);
/* Adds the companions that the model was loaded with as metadata. Those that follow from the model are not needed in a
 * single file. */
bo_status bo_package_companions(bo_context *context, const bo_model *model, bo_package *package);
/* Adds the checksums of the companions in a directory as metadata. */
bo_status bo_package_companion_sums(bo_context *context, const bo_model *model, bo_package *package);

/* Returns the number of feature maps. */
size_t bo_maps_count(const bo_model *model);
/* Adds the feature maps of every layer: "model.layers.N.self_attn.heads.K.features.w", "model.layers.N.mlp.features.w",
 * …. The arrays must have space for the tensors of each map and for one metadata entry per map. */
bo_status bo_maps_pack(bo_context *context, const bo_model *model, bo_package *package);
/* Reads the feature maps of a file into the model. `used` marks the tensors that were read. */
bo_status bo_maps_read(bo_context *context, bo_model *model, const bo_tensors *file, bool *used);
/* Copies a map with its frequencies. */
bo_status bo_map_copy(bo_context *context, const bo_features *from, bo_features **out);
/* Copies the feature maps of another model if its attention has the same form. *copied: whether it has. */
bo_status bo_maps_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *copied);
/* Likewise for the feature map of the MLP or of its layers. *copied is true if there are none. Record graphs only
 * afterwards. */
bo_status bo_mlp_map_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *copied);

/* Reads all weights of a file into the model. Weights without memory are allocated in this storage after all checks
 * have passed. */
bo_status bo_model_fill(bo_context *context, bo_model *model, bo_family family, const bo_tensors *file,
                        bo_storage storage);

/* recognize.c: fail with a message that names the format of a file in another format, the directory of a file with
 * weights but without config.json, or the contents of a directory without config.json. BO_OK: no problem was
 * recognized. */
bo_status bo_model_refuse_file(bo_context *context, const char *path);
bo_status bo_model_refuse_weights(bo_context *context, const char *path);
bo_status bo_model_refuse_directory(bo_context *context, const char *path);

#endif
