/* Names of the enumerations of this module. The name of a value out of range is NULL. Parsing an unknown name leaves
 * *out unchanged. The public functions are bo_enum_name and bo_enum_parse (api/enums.c). */
#ifndef BO_PLAN_ENUMS_H
#define BO_PLAN_ENUMS_H

#include <bochner/plan.h>

const char *bo_plan_term_name(bo_plan_term value);
bool bo_plan_term_parse(const char *name, bo_plan_term *out);
const char *bo_plan_origin_name(bo_plan_origin value);
bool bo_plan_origin_parse(const char *name, bo_plan_origin *out);

#endif
