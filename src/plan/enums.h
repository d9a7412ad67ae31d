/* Names of the enumerations of this module. The name is NULL if a value is out of range; a name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_PLAN_ENUMS_H
#define BO_PLAN_ENUMS_H

#include <bochner/plan.h>

const char *bo_plan_term_name(bo_plan_term value);
bool bo_plan_term_parse(const char *name, bo_plan_term *out);
const char *bo_plan_origin_name(bo_plan_origin value);
bool bo_plan_origin_parse(const char *name, bo_plan_origin *out);

#endif
