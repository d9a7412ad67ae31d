/* The report of bochner embed. */
#include "embed.h"

/* The fraction of the squared norm of the features outside the components, for the embedded rows centered by the
 * training rows. */
static double error_of_rows(const cli_embed_result *result)
{
    const double all = result->error + result->inside;
    return all > 0 ? result->error / all : 0;
}

void cli_embed_print(const cli_embed_result *result, const cli_embed_options *options, FILE *out)
{
    enum { SHOWN = 20 };
    const bo_embedding_report *report = bo_embedding_describe(result->embedding);
    const double *variance = report->variances;
    fprintf(out, "%-12s%s row%s x %s column%s of %s\n", "Data", cli_count(result->rows).s, result->rows == 1 ? "" : "s",
            cli_count(report->dim).s, report->dim == 1 ? "" : "s", result->data);
    fprintf(out, "%-12s%s %s features, gamma %s, scaling %s", "Map", cli_count(report->features).s,
            bo_enum_name(BO_ENUM_KERNEL, report->kernel), cli_significant(report->gamma, 4).s,
            bo_enum_name(BO_ENUM_SCALING, report->scaling));
    if (!options->model) fprintf(out, "; fitted in %s", cli_seconds(report->seconds).s);
    fprintf(out, "\n%-12s%-12s%-12s%s\n", "", "variance", "share", "cumulative");
    double sum = 0;
    for (size_t k = 0; k < report->components && k < SHOWN; k++) {
        sum += variance[k];
        fprintf(out, "c%-11zu%-12s%5.1f%%      %5.1f%%\n", k + 1, cli_significant(variance[k], 4).s,
                100 * variance[k] / report->variance, 100 * sum / report->variance);
    }
    if (report->components > SHOWN) fprintf(out, "... and %s more\n", cli_count(report->components - SHOWN).s);
    fprintf(out, "%-12sfeatures: %.2f%% of their variance is outside the components", "Error",
            100 * report->feature_error);
    if (options->model) fprintf(out, " (training rows; %.2f%% of these rows)", 100 * error_of_rows(result));
    fprintf(out, "\n%-12sinputs: %.2f%% of their variance is not reconstructed%s\n", "", 100 * report->input_error,
            options->model ? " (training rows)" : "");
}

void cli_embed_json(const cli_embed_result *result, const cli_embed_options *options, cli_json *json)
{
    const bo_embedding_report *report = bo_embedding_describe(result->embedding);
    cli_json_add_text(json, "data", result->data);
    cli_json_add_text(json, "model", options->model ? options->model : options->save);
    cli_json_add_text(json, "out", options->out);
    cli_json_add_count(json, "rows", result->rows);
    cli_json_add_count(json, "training_rows", report->rows);
    cli_json_add_count(json, "dim", report->dim);
    cli_json_add_count(json, "components", report->components);
    cli_json_add_text(json, "kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    cli_json_add_text(json, "function", bo_enum_name(BO_ENUM_FUNCTION, report->function));
    cli_json_add_text(json, "draw", bo_enum_name(BO_ENUM_DRAW, report->draw));
    cli_json_add_count(json, "features", report->features);
    cli_json_add_number(json, "gamma", report->gamma);
    cli_json_add_text(json, "scaling", bo_enum_name(BO_ENUM_SCALING, report->scaling));
    cli_json_add_text(json, "precision", bo_enum_name(BO_ENUM_GRAM_PRECISION, report->precision));
    cli_json_add_number(json, "variance", report->variance);
    cli_json_array(json, "variances");
    for (size_t k = 0; k < report->components; k++) cli_json_add_number(json, NULL, report->variances[k]);
    cli_json_end(json);
    cli_json_add_number(json, "feature_error", report->feature_error);
    cli_json_add_number(json, "input_error", report->input_error);
    cli_json_add_number(json, "row_error", error_of_rows(result));
    cli_json_add_number(json, "fit_seconds", report->seconds);
    cli_json_add_number(json, "apply_seconds", result->seconds);
    cli_json_end(json);
}
