/* Names of the enumerations of this module. The name is NULL if a value is out of range. A name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) provide them. */
#ifndef BO_MATH_ENUMS_H
#define BO_MATH_ENUMS_H

#include <bochner/metrics.h>

const char *bo_score_name(bo_score value);
bool bo_score_parse(const char *name, bo_score *out);

#endif
