/* Names of the enumerations of this module. The name is NULL if a value is out of range. A name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) provide them. */
#ifndef BO_BASE_ENUMS_H
#define BO_BASE_ENUMS_H

#include <bochner/base.h>

const char *bo_precision_name(bo_precision value);
bool bo_precision_parse(const char *name, bo_precision *out);

#endif
