/* The inputs of a schema, by columns of the file. */
#include "schema.h"

bool bo_schema_input_column(const bo_schema *schema, size_t input, size_t *column, const char **name)
{
    if (name) *name = NULL;
    if (!schema || !column || input >= schema->dim) return false;
    size_t found = 0;
    for (size_t i = 0; i < schema->column_count;
         i++) /* `first` ascends, and a column without categories has no inputs */
        if (bo_column_is_input(&schema->columns[i]) && schema->columns[i].first <= input) found = i;
    *column = found;
    if (name) *name = schema->columns[found].name;
    return true;
}
