/* Names of the enumerations of this module. The name is NULL if a value is out of range; a name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_TAPE_ENUMS_H
#define BO_TAPE_ENUMS_H

#include <bochner/operations.h>

const char *bo_operation_name(bo_operation value);
bool bo_operation_parse(const char *name, bo_operation *out);

#endif
