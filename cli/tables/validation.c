#include "validation.h"
#include "../common/metrics.h"
#include <math.h>

void cli_validation_json(cli_json *json, const bo_fit_report *report)
{
    if (report->validation_rows == 0) return;
    cli_json_add_count(json, "validation_rows", report->validation_rows);
    if (report->classes) {
        cli_json_add_number(json, "validation_accuracy", report->validation_accuracy);
        cli_json_add_number(json, "validation_log_loss", report->validation_log_loss);
    } else {
        cli_json_add_number(json, "validation_rmse", report->validation_rmse);
        cli_json_add_number(json, "validation_r2", report->validation_r2);
    }
}

void cli_validation_print(FILE *out, const bo_fit_report *report)
{
    if (report->validation_rows == 0) return;
    const bool leave_one_out =
        report->loss != BO_LOSS_LOGISTIC && (report->solver == BO_SOLVER_PRIMAL || report->solver == BO_SOLVER_DUAL);
    fprintf(out, "Validation  ");
    if (report->classes)
        cli_metrics_print_classes(out, report->validation_accuracy, report->validation_log_loss);
    else
        cli_metrics_print_numbers(out, report->validation_rmse, report->validation_r2);
    fprintf(out, leave_one_out ? ", leave-one-out on %s training rows\n" : " on %s validation rows\n",
            cli_count(report->validation_rows).s);
}
