/* Names of the enumerations of this module. The name is NULL if a value is out of range; a name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_FEATURES_ENUMS_H
#define BO_FEATURES_ENUMS_H

#include <bochner/features.h>

const char *bo_kernel_name(bo_kernel value);
bool bo_kernel_parse(const char *name, bo_kernel *out);
const char *bo_function_name(bo_function value);
bool bo_function_parse(const char *name, bo_function *out);
const char *bo_draw_name(bo_draw value);
bool bo_draw_parse(const char *name, bo_draw *out);
const char *bo_sampling_name(bo_sampling value);
bool bo_sampling_parse(const char *name, bo_sampling *out);
const char *bo_hidden_activation_name(bo_hidden_activation value);
bool bo_hidden_activation_parse(const char *name, bo_hidden_activation *out);

#endif
