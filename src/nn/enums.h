/* Names of the enumerations of this module. The name is NULL if a value is out of range; a name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_NN_ENUMS_H
#define BO_NN_ENUMS_H

#include <bochner/base.h>
#include <bochner/kinds.h>

const char *bo_mlp_name(bo_mlp value);
bool bo_mlp_parse(const char *name, bo_mlp *out);
const char *bo_norm_name(bo_norm value);
bool bo_norm_parse(const char *name, bo_norm *out);
const char *bo_positions_name(bo_positions value);
bool bo_positions_parse(const char *name, bo_positions *out);
const char *bo_residual_name(bo_residual value);
bool bo_residual_parse(const char *name, bo_residual *out);
const char *bo_rope_scaling_kind_name(bo_rope_scaling_kind value);
bool bo_rope_scaling_kind_parse(const char *name, bo_rope_scaling_kind *out);
const char *bo_mixer_name(bo_mixer value);
bool bo_mixer_parse(const char *name, bo_mixer *out);
const char *bo_ssm_name(bo_ssm value);
bool bo_ssm_parse(const char *name, bo_ssm *out);
const char *bo_parametrization_name(bo_parametrization value);
bool bo_parametrization_parse(const char *name, bo_parametrization *out);
const char *bo_storage_name(bo_storage value);
bool bo_storage_parse(const char *name, bo_storage *out);
const char *bo_lora_init_name(bo_lora_init value);
bool bo_lora_init_parse(const char *name, bo_lora_init *out);

#endif
