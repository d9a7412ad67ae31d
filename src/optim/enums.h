/* Names of the enumerations of this module. The name is NULL if a value is out of range; a name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_OPTIM_ENUMS_H
#define BO_OPTIM_ENUMS_H

#include <bochner/optim.h>

const char *bo_optimizer_kind_name(bo_optimizer_kind value);
bool bo_optimizer_kind_parse(const char *name, bo_optimizer_kind *out);
const char *bo_schedule_kind_name(bo_schedule_kind value);
bool bo_schedule_kind_parse(const char *name, bo_schedule_kind *out);
const char *bo_muon_factor_name(bo_muon_factor value);
bool bo_muon_factor_parse(const char *name, bo_muon_factor *out);
const char *bo_muon_iteration_name(bo_muon_iteration value);
bool bo_muon_iteration_parse(const char *name, bo_muon_iteration *out);

#endif
