/* The accuracy report of random features, their error relative to the exact kernel, as text and as JSON. */
#ifndef CLI_TABLES_ACCURACY_STATEMENT_H
#define CLI_TABLES_ACCURACY_STATEMENT_H

#include "../common/json.h"
#include <bochner/features.h>

void cli_statement_json(cli_json *json, const bo_features_accuracy *accuracy); /* "accuracy_statement": {…} */
/* Prints two or three wrapped sentences; lines after the first are indented. */
void cli_statement_print(FILE *out, const bo_features_accuracy *accuracy, size_t features, bo_function function,
                         bo_draw draw, int indent);

#endif
