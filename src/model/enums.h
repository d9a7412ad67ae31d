/* Names of the enumerations of this module. The name is NULL if a value is out of range; a name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_MODEL_ENUMS_H
#define BO_MODEL_ENUMS_H

#include <bochner/convert.h>
#include <bochner/model.h>
#include <bochner/network.h>

const char *bo_convert_dtype_name(bo_convert_dtype value);
bool bo_convert_dtype_parse(const char *name, bo_convert_dtype *out);
const char *bo_model_task_name(bo_model_task value);
bool bo_model_task_parse(const char *name, bo_model_task *out);
const char *bo_pooling_name(bo_pooling value);
bool bo_pooling_parse(const char *name, bo_pooling *out);
const char *bo_cross_name(bo_cross value);
bool bo_cross_parse(const char *name, bo_cross *out);
const char *bo_network_input_name(bo_network_input value);
bool bo_network_input_parse(const char *name, bo_network_input *out);

#endif
