/* Names of columns and classes. */
#include "columns.h"

const char *cli_input_name(const bo_schema *schema, size_t index)
{
    const bo_schema_info *facts = schema ? bo_schema_describe(schema) : NULL;
    return facts && facts->input_names && index < facts->inputs ? facts->input_names[index] : NULL;
}

const char *cli_target_name(const bo_schema *schema, size_t index)
{
    const bo_schema_info *facts = schema ? bo_schema_describe(schema) : NULL;
    return facts && facts->target_names && index < facts->targets ? facts->target_names[index] : NULL;
}

const char *cli_class_name(const bo_schema *schema, size_t index)
{
    const bo_schema_info *facts = schema ? bo_schema_describe(schema) : NULL;
    return facts && facts->class_names && index < facts->classes ? facts->class_names[index] : NULL;
}
