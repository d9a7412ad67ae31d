/* Names of the enumerations of this module. The name is NULL if a value is out of range; a name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_MACHINES_ENUMS_H
#define BO_MACHINES_ENUMS_H

#include <bochner/drift.h>
#include <bochner/machines.h>

const char *bo_p_value_name(bo_p_value value);
bool bo_p_value_parse(const char *name, bo_p_value *out);
const char *bo_solver_name(bo_solver value);
bool bo_solver_parse(const char *name, bo_solver *out);
const char *bo_loss_name(bo_loss value);
bool bo_loss_parse(const char *name, bo_loss *out);
const char *bo_scaling_name(bo_scaling value);
bool bo_scaling_parse(const char *name, bo_scaling *out);
const char *bo_metric_choice_name(bo_metric_choice value);
bool bo_metric_choice_parse(const char *name, bo_metric_choice *out);
const char *bo_gram_precision_name(bo_gram_precision value);
bool bo_gram_precision_parse(const char *name, bo_gram_precision *out);
const char *bo_target_scale_name(bo_target_scale value);
bool bo_target_scale_parse(const char *name, bo_target_scale *out);

#endif
