/* bochner info: kernel machines. */
#include "info.h"
#include "../common/columns.h"
#include "../tables/accuracy_statement.h"
#include "../tables/kernel_line.h"
#include "../tables/validation.h"
#include <stdio.h>

/* The dual solver computes standard deviations from the training rows. */
static bool keeps_rows(const bo_fit_report *report)
{
    return (report->solver == BO_SOLVER_DUAL && report->has_std) || report->function == BO_FUNCTION_SECTIONS;
}

/* Names of inputs, targets and classes. */
static void json_schema(cli_json *json, const bo_schema *schema, const bo_fit_report *report)
{
    cli_json_array(json, "inputs");
    for (size_t i = 0; i < bo_schema_describe(schema)->inputs; i++)
        cli_json_add_text(json, NULL, cli_input_name(schema, i));
    cli_json_end(json);
    cli_json_array(json, "targets");
    for (size_t i = 0; i < bo_schema_describe(schema)->targets; i++)
        cli_json_add_text(json, NULL, cli_target_name(schema, i));
    cli_json_end(json);
    if (!report->classes) return;
    cli_json_array(json, "classes");
    for (size_t i = 0; i < report->classes; i++) cli_json_add_text(json, NULL, cli_class_name(schema, i));
    cli_json_end(json);
}

static void machine_json(const char *path, const bo_fit_report *report, const bo_schema *schema)
{
    cli_json json = {.out = stdout};
    cli_info_json_file(&json, path, "machine");
    cli_json_add_text(&json, "task", bo_enum_name(BO_ENUM_TASK, report->task));
    cli_json_add_count(&json, "rows", report->rows);
    cli_json_add_count(&json, "dim", report->dim);
    cli_json_add_count(&json, "outputs", report->outputs);
    cli_json_add_count(&json, "features", report->features);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    cli_json_add_text(&json, "function", bo_enum_name(BO_ENUM_FUNCTION, report->function));
    cli_json_add_text(&json, "draw", bo_enum_name(BO_ENUM_DRAW, report->draw));
    cli_json_add_number(&json, "gamma", report->gamma);
    cli_kernel_json(&json, report);
    cli_json_add_number(&json, "lambda", report->lambda);
    cli_json_add_text(&json, "loss", bo_enum_name(BO_ENUM_LOSS, report->loss));
    cli_json_add_text(&json, "scaling", bo_enum_name(BO_ENUM_SCALING, report->scaling));
    cli_json_add_text(&json, "solver", bo_enum_name(BO_ENUM_SOLVER, report->solver));
    cli_json_add_flag(&json, "has_std", report->has_std);
    if (!report->classes)
        cli_json_add_text(&json, "target_scale", bo_enum_name(BO_ENUM_TARGET_SCALE, report->target_scale));
    cli_json_add_flag(&json, "keeps_rows", keeps_rows(report));
    cli_validation_json(&json, report);
    if (!report->classes) cli_json_add_number(&json, "noise_std", report->noise_std);
    if (schema) json_schema(&json, schema, report);
    cli_statement_json(&json, &report->accuracy);
    cli_json_end(&json);
}

static void machine_print(const char *path, const bo_fit_report *report, const bo_schema *schema)
{
    printf("%s: a kernel machine for %s (%s)\n", path, bo_enum_name(BO_ENUM_TASK, report->task),
           cli_bytes(cli_info_file_size(path)).s);
    if (schema) {
        cli_info_names("Inputs", bo_schema_describe(schema)->inputs, bo_schema_describe(schema)->input_names);
        if (report->classes)
            cli_info_names("Classes", report->classes, bo_schema_describe(schema)->class_names);
        else
            cli_info_names("Targets", bo_schema_describe(schema)->targets, bo_schema_describe(schema)->target_names);
    }
    printf("%-12s%s rows%s\n", "Fitted on", cli_count(report->rows).s,
           report->function == BO_FUNCTION_SECTIONS ? "; their inputs are stored in the file for the exact kernel"
           : keeps_rows(report) ? "; their inputs are stored in the file for the standard deviations"
                                : "");
    cli_kernel_print(stdout, report);
    const bool logarithms = report->target_scale == BO_TARGET_SCALE_LOG;
    printf("%-12sloss %s, lambda %s, solver %s, scaling %s%s\n", "Fit", bo_enum_name(BO_ENUM_LOSS, report->loss),
           cli_significant(report->lambda, 4).s, bo_enum_name(BO_ENUM_SOLVER, report->solver),
           bo_enum_name(BO_ENUM_SCALING, report->scaling), logarithms ? ", target scale log" : "");
    cli_validation_print(stdout, report);
    if (!report->classes)
        printf("%-12s%s (standard deviation%s); %s standard deviations and intervals\n", "Noise",
               cli_quantity(report->noise_std, 4).s, logarithms ? " of the logarithm" : "",
               report->has_std ? "predicts" : "does not predict");
    if (report->function == BO_FUNCTION_SECTIONS) return; /* the kernel is exact */
    printf("%-12s", "Features");
    cli_statement_print(stdout, &report->accuracy, report->features, report->function, report->draw, 12);
}

void cli_info_machine(const cli_session *session, const char *path, const bo_machine *machine, const bo_schema *schema)
{
    (session->common.json ? machine_json : machine_print)(path, bo_machine_report(machine), schema);
}
