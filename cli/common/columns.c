/* Names of columns and classes. */
#include "columns.h"

const char *cli_input_name(const bo_schema *schema, size_t index)
{
    const bo_schema_info *info = schema ? bo_schema_describe(schema) : NULL;
    return info && info->input_names && index < info->inputs ? info->input_names[index] : NULL;
}

const char *cli_target_name(const bo_schema *schema, size_t index)
{
    const bo_schema_info *info = schema ? bo_schema_describe(schema) : NULL;
    return info && info->target_names && index < info->targets ? info->target_names[index] : NULL;
}

const char *cli_class_name(const bo_schema *schema, size_t index)
{
    const bo_schema_info *info = schema ? bo_schema_describe(schema) : NULL;
    return info && info->class_names && index < info->classes ? info->class_names[index] : NULL;
}
