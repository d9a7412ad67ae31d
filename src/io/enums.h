/* Names of the enumerations of this module. The name is NULL if a value is out of range. A name that is not found
 * leaves *out unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) provide them. */
#ifndef BO_IO_ENUMS_H
#define BO_IO_ENUMS_H

#include <bochner/data.h>

const char *bo_format_name(bo_format value);
bool bo_format_parse(const char *name, bo_format *out);
const char *bo_task_name(bo_task value);
bool bo_task_parse(const char *name, bo_task *out);
const char *bo_impute_name(bo_impute value);
bool bo_impute_parse(const char *name, bo_impute *out);
const char *bo_column_use_name(bo_column_use value);
bool bo_column_use_parse(const char *name, bo_column_use *out);
const char *bo_omission_name(bo_omission value);
bool bo_omission_parse(const char *name, bo_omission *out);
const char *bo_split_name(bo_split value);
bool bo_split_parse(const char *name, bo_split *out);

#endif
