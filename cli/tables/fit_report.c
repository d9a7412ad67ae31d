/* The report of a fit, as text and as JSON. */
#include "fit.h"
#include "accuracy_statement.h"
#include "columns_line.h"
#include "folds.h"
#include "kernel_line.h"
#include "validation.h"
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *task_name(const bo_fit_report *report)
{
    return bo_enum_name(BO_ENUM_TASK, report->task);
}

static void json_model(cli_json *json, const bo_fit_report *report)
{
    cli_json_add_text(json, "task", task_name(report));
    cli_json_add_count(json, "rows", report->rows);
    cli_json_add_count(json, "dim", report->dim);
    cli_json_add_count(json, "outputs", report->outputs);
    if (report->classes) cli_json_add_count(json, "classes", report->classes);
    cli_json_add_count(json, "features", report->features);
    cli_json_add_text(json, "kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    cli_json_add_text(json, "function", bo_enum_name(BO_ENUM_FUNCTION, report->function));
    cli_json_add_text(json, "draw", bo_enum_name(BO_ENUM_DRAW, report->draw));
    cli_json_add_number(json, "gamma", report->gamma);
    cli_json_add_text(json, "metric", bo_enum_name(BO_ENUM_METRIC_CHOICE, report->metric));
    cli_json_add_count(json, "metric_iterations", (size_t)report->metric_iterations);
    if (report->members > 1) cli_json_add_count(json, "members", report->members);
    cli_kernel_json(json, report);
    cli_json_add_number(json, "lambda", report->lambda);
    cli_json_add_text(json, "loss", bo_enum_name(BO_ENUM_LOSS, report->loss));
    cli_json_add_text(json, "scaling", bo_enum_name(BO_ENUM_SCALING, report->scaling));
    if (!report->classes)
        cli_json_add_text(json, "target_scale", bo_enum_name(BO_ENUM_TARGET_SCALE, report->target_scale));
    cli_json_add_text(json, "solver", bo_enum_name(BO_ENUM_SOLVER, report->solver));
    cli_json_add_text(json, "why_solver", report->why_solver);
    cli_json_add_text(json, "precision", bo_enum_name(BO_ENUM_GRAM_PRECISION, report->precision));
    if (report->iterations) cli_json_add_count(json, "iterations", (size_t)report->iterations);
    cli_json_add_number(json, "search_seconds", report->search_seconds);
    cli_json_add_number(json, "fit_seconds", report->fit_seconds);
    if (isfinite(report->search_score)) cli_json_add_number(json, "search_score", report->search_score);
    cli_validation_json(json, report);
    if (!report->classes) cli_json_add_number(json, "noise_std", report->noise_std);
}

void cli_fit_json(const cli_fit_job *job)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    json_model(&json, bo_machine_report(job->machine));
    cli_columns_json(&json, cli_fit_schema(job));
    cli_json_add_number(&json, "total_seconds", cli_now() - job->started);
    cli_json_add_count(&json, "memory_bytes", job->plan.bytes);
    cli_json_add_flag(&json, "stream", job->options->stream);
    if (job->session->ranks.size > 1) cli_json_add_count(&json, "ranks", (size_t)job->session->ranks.size);
    cli_json_add_count(&json, "threads", (size_t)bo_context_describe(job->session->context)->threads);
    cli_json_add_text(&json, "isa", bo_context_describe(job->session->context)->isa);
    cli_json_add_text(&json, "model", job->options->out);
    cli_statement_json(&json, &bo_machine_report(job->machine)->accuracy);
    if (job->folds) cli_folds_json(job->folds, &json);
    if (job->metrics) cli_metrics_json(job->session, job->metrics, cli_fit_schema(job), &json);
    cli_json_end(&json);
}

static void print_saved(const cli_fit_job *job)
{
    struct stat info;
    if (!job->options->out)
        printf("Model       not saved (use --out MODEL to save it)\n");
    else if (stat(job->options->out, &info) == 0)
        printf("Model       %s (%s)\n", job->options->out, cli_bytes((double)info.st_size).s);
    else
        printf("Model       %s\n", job->options->out);
}

/* With fewer than 50 test rows the difference may be random. */
static void warn_of_surprise(const cli_fit_job *job, const bo_fit_report *report)
{
    if (report->classes || report->validation_rows == 0 || job->metrics->rows < 50) return;
    bo_metrics_summary test;
    bo_metrics_report(job->metrics, &test);
    if (test.rmse > 1.5 * report->validation_rmse)
        cli_warn(job->session,
                 "the test RMSE %s is larger than the validation RMSE %s: the settings overfit the training rows, or "
                 "some test rows differ from them; --folds 5 measures the error more reliably, --metric none or a "
                 "larger --lambda is safer",
                 cli_quantity(test.rmse, 4).s, cli_quantity(report->validation_rmse, 4).s);
}

void cli_fit_print(const cli_fit_job *job)
{
    const bo_fit_report *report = bo_machine_report(job->machine);
    cli_kernel_print(stdout, report);
    printf("Fit         loss %s, lambda %s, scaling of the inputs: %s%s\n", bo_enum_name(BO_ENUM_LOSS, report->loss),
           cli_significant(report->lambda, 4).s, bo_enum_name(BO_ENUM_SCALING, report->scaling),
           report->target_scale == BO_TARGET_SCALE_LOG ? ", scale of the target: log" : "");
    char solver[512];
    snprintf(solver, sizeof solver, "%s: %s", bo_enum_name(BO_ENUM_SOLVER, report->solver),
             report->why_solver ? report->why_solver : "");
    fputs("Solver      ", stdout);
    cli_print_wrapped(stdout, solver, 12);
    printf("Time        search %s, fit %s, total %s\n", cli_seconds(report->search_seconds).s,
           cli_seconds(report->fit_seconds).s, cli_seconds(cli_now() - job->started).s);
    cli_validation_print(stdout, report);
    if (job->metrics) {
        cli_metrics_print(job->session, job->metrics, cli_fit_schema(job), stdout);
        warn_of_surprise(job, report);
    }
    if (report->function != BO_FUNCTION_SECTIONS) {
        printf("Features    ");
        cli_statement_print(stdout, &report->accuracy, report->features, report->function, report->draw, 12);
    }
    print_saved(job);
}

void cli_fit_suggest_next(const cli_fit_job *job)
{
    const bo_fit_report *report = bo_machine_report(job->machine);
    const char *more = report->classes ? " --proba" : report->has_std ? " --std" : "";
    if (!job->options->out) return; /* the report contains --out */
    char *model = cli_shell_quoted(job->options->out);
    cli_suggest_next(job->session, "bochner predict %s new.csv%s", model, more);
    free(model);
}
