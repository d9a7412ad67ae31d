/* The validation error of a kernel machine, as text and as JSON. */
#ifndef CLI_TABLES_VALIDATION_H
#define CLI_TABLES_VALIDATION_H

#include "../common/json.h"
#include <bochner/machines.h>
#include <stdio.h>

/* "validation_rows" and the metrics of the task; nothing without a validation error. */
void cli_validation_json(cli_json *json, const bo_fit_report *report);
/* One line, "Validation  RMSE 53,010 (R² 0.791), ..."; nothing without a validation error. */
void cli_validation_print(FILE *out, const bo_fit_report *report);

#endif
