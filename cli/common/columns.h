/* Names of columns and classes of a schema, which may be NULL (a model without one) or have no names. */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include <bochner/data.h>

/* Return NULL if there is no name. */
const char *cli_input_name(const bo_schema *schema, size_t index);
const char *cli_target_name(const bo_schema *schema, size_t index);
const char *cli_class_name(const bo_schema *schema, size_t index);

#endif
