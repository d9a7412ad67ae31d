/* The line of a report that describes the kernel of a machine and its features. */
#ifndef CLI_TABLES_KERNEL_LINE_H
#define CLI_TABLES_KERNEL_LINE_H

#include "../common/cli.h"
#include "../common/json.h"

void cli_kernel_print(FILE *out, const bo_fit_report *report);
/* Adds the parameters of network kernels; nothing for other kernels. */
void cli_kernel_json(cli_json *json, const bo_fit_report *report);

#endif
