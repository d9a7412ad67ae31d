/* The use of the columns of a table, as a report line and as JSON. */
#ifndef CLI_TABLES_COLUMNS_LINE_H
#define CLI_TABLES_COLUMNS_LINE_H

#include "../common/cli.h"
#include "../common/json.h"

/* "Columns 8 numbers, 1 one-hot (5 inputs), 1 left out (id: row numbers)"; nothing if all columns are plain numbers. */
void cli_columns_report(cli_session *session, const bo_schema *schema);
/* Members "number_columns" and "columns", a list of columns that are not plain numbers. */
void cli_columns_json(cli_json *json, const bo_schema *schema);

/* The number that is subtracted from an input (bo_schema_info.origins). */
static inline double cli_origin_of(const bo_schema *schema, size_t input)
{
    const double *origins = bo_schema_describe(schema)->origins;
    return origins ? origins[input] : 0;
}

#endif
