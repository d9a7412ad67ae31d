/* Families of pretrained models as transformers stores them: the members of config.json and the names and layout of the
 * tensors, one row of a table per family. The same rows serve for reading and for writing. */
#ifndef BO_MODEL_FAMILIES_H
#define BO_MODEL_FAMILIES_H

#include "../nn/weight_files.h"
#include "config.h"

/* ---- configuration ----------------------------------------------------------------------------------------------- */

/* Finds a family by its "model_type", such as "llama". BOCHNER: none. */
bo_family bo_family_find(const char *type);
/* Writes the names of all families, separated by ", ". */
void bo_family_list(char *out, size_t size);
/* Reads the members of a family's config.json into a descriptor. Messages start with `where`. */
bo_status bo_family_read(bo_context *context, const char *where, bo_family family, const bo_json *json,
                         bo_model_desc *out);
/* Returns the family of the written files: model->family if the model still fits it, otherwise the first fitting
 * family. BOCHNER: no family fits. */
bo_status bo_family_of(bo_context *context, const bo_model *model, bo_family *out);
/* Writes the members of config.json, starting with "architectures", without braces. */
void bo_family_write(bo_json_text *text, bo_family family, const bo_model_desc *desc);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The place of a weight in the tensors of a family: rows of a tensor, which it may share with other weights. Row r of
 * the weight is row first + r / group * period + r % group of the tensor. */
typedef struct bo_weight_place {
    char tensor[256];
    bool transposed; /* the tensor is stored as in x out */
    size_t rows;     /* rows of the tensor; if transposed, columns */
    size_t first, group, period;
    float offset; /* added to the numbers of the file: gains that are stored as differences from 1 */
} bo_weight_place;

bo_weight_place bo_family_place(bo_family family, const bo_model_desc *desc, const bo_weight *weight);
bool bo_family_is_head(bo_family family, const char *tensor); /* True for the output matrix. */
/* True for tensors in a file that are not weights: masks, and values that follow from the configuration. */
bool bo_family_ignores(bo_family family, const bo_model_desc *desc, const char *tensor);
/* Adds all weights of a model to an empty package, as the tensors of a family. */
bo_status bo_family_pack(bo_context *context, const bo_model *model, bo_family family, bo_package *out);
/* The root prefix "model.". Files of the model without its output projection lack it. */
const char *bo_family_root(bo_family family);

#endif
