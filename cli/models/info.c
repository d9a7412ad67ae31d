/* bochner info: what a file written by bochner holds. */
#include "info.h"
#include "../common/json.h"
#include "network.h"
#include "../tables/accuracy_statement.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static double file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (double)info.st_size : NAN;
}

/* ---- a machine ----------------------------------------------------------------------------------------- */

/* The dual solver's standard deviations are distances to the rows learned from. */
static bool keeps_rows(const bo_machine_report *report)
{
    return report->solver == BO_SOLVER_DUAL && report->has_std;
}

static void machine_json(const char *path, const bo_machine_report *report, const bo_schema *schema)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_text(&json, "file", path);
    cli_json_number(&json, "bytes", file_size(path));
    cli_json_text(&json, "holds", "machine");
    cli_json_text(&json, "task", bo_task_name(report->task));
    cli_json_count(&json, "rows", report->rows);
    cli_json_count(&json, "dim", report->dim);
    cli_json_count(&json, "outputs", report->outputs);
    cli_json_count(&json, "features", report->features);
    cli_json_text(&json, "kernel", bo_kernel_name(report->kernel));
    cli_json_text(&json, "function", bo_function_name(report->function));
    cli_json_text(&json, "draw", bo_draw_name(report->draw));
    cli_json_number(&json, "gamma", report->gamma);
    cli_json_number(&json, "lambda", report->lambda);
    cli_json_text(&json, "loss", bo_loss_name(report->loss));
    cli_json_text(&json, "scaling", bo_scaling_name(report->scaling));
    cli_json_text(&json, "solver", bo_solver_name(report->solver));
    cli_json_flag(&json, "has_std", report->has_std);
    cli_json_flag(&json, "keeps_rows", keeps_rows(report));
    if (!report->classes) cli_json_number(&json, "noise_std", report->noise_std);
    cli_json_number(&json, "fit_seconds", report->fit_seconds);
    if (schema) {
        cli_json_array(&json, "inputs");
        for (size_t i = 0; i < bo_schema_dim(schema); i++) cli_json_text(&json, NULL, bo_schema_input(schema, i));
        cli_json_end(&json);
        cli_json_array(&json, "targets");
        for (size_t i = 0; i < bo_schema_targets(schema); i++) cli_json_text(&json, NULL, bo_schema_target(schema, i));
        cli_json_end(&json);
    }
    if (schema && report->classes) {
        cli_json_array(&json, "classes");
        for (size_t i = 0; i < report->classes; i++) cli_json_text(&json, NULL, bo_schema_class(schema, i));
        cli_json_end(&json);
    }
    cli_statement_json(&json, &report->accuracy);
    cli_json_end(&json);
}

/* The first few names of a list. */
static void print_names(const char *title, size_t count, const bo_schema *schema,
                        const char *(*name)(const bo_schema *, size_t))
{
    enum { SHOWN = 12 };
    printf("%-12s%s: ", title, cli_count(count).s);
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        const char *word = name(schema, i);
        printf("%s%s", i ? ", " : "", word ? word : "(no name)");
    }
    printf("%s\n", count > SHOWN ? ", ..." : "");
}

static void machine_print(const char *path, const bo_machine_report *report, const bo_schema *schema)
{
    printf("%s: a kernel machine for %s (%s)\n", path, bo_task_name(report->task), cli_bytes(file_size(path)).s);
    if (schema) {
        print_names("Inputs", bo_schema_dim(schema), schema, bo_schema_input);
        if (report->classes)
            print_names("Classes", report->classes, schema, bo_schema_class);
        else
            print_names("Targets", bo_schema_targets(schema), schema, bo_schema_target);
    }
    printf("%-12s%s rows%s\n", "Learned from", cli_count(report->rows).s,
           keeps_rows(report) ? ", whose inputs are kept in the file for the standard deviations" : "");
    printf("%-12s%s, gamma %s; %s features (%s, %s)\n", "Kernel", bo_kernel_name(report->kernel),
           cli_significant(report->gamma, 4).s, cli_count(report->features).s, bo_function_name(report->function),
           bo_draw_name(report->draw));
    printf("%-12s%s, lambda %s, solver %s, inputs scaled: %s\n", "Fit", bo_loss_name(report->loss),
           cli_significant(report->lambda, 4).s, bo_solver_name(report->solver), bo_scaling_name(report->scaling));
    if (!report->classes)
        printf("%-12s%s%s\n", "Noise", cli_significant(report->noise_std, 4).s,
               report->has_std ? "; predicts standard deviations" : "; no standard deviations");
    printf("%-12s", "Features");
    cli_statement_print(stdout, &report->accuracy, report->features, report->draw, 12);
}

/* ---- a map --------------------------------------------------------------------------------------------- */

static void features_json(const char *path, const bo_features_desc *desc, size_t frequencies)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_text(&json, "file", path);
    cli_json_number(&json, "bytes", file_size(path));
    cli_json_text(&json, "holds", "features");
    cli_json_count(&json, "dim", desc->dim);
    cli_json_count(&json, "features", desc->features);
    cli_json_count(&json, "frequencies", frequencies);
    cli_json_text(&json, "kernel", bo_kernel_name(desc->kernel));
    cli_json_text(&json, "function", bo_function_name(desc->function));
    cli_json_text(&json, "draw", bo_draw_name(desc->draw));
    cli_json_text(&json, "sampling", bo_sampling_name(desc->sampling));
    cli_json_number(&json, "gamma", desc->gamma);
    cli_json_number(&json, "seed", (double)desc->seed);
    cli_json_end(&json);
}

static void features_print(const char *path, const bo_features_desc *desc, size_t frequencies)
{
    printf("%s: a feature map (%s)\n", path, cli_bytes(file_size(path)).s);
    printf("%-12s%s, gamma %s\n", "Kernel", bo_kernel_name(desc->kernel), cli_significant(desc->gamma, 4).s);
    printf("%-12s%s of %s columns, from %s frequencies\n", "Features", cli_count(desc->features).s,
           cli_count(desc->dim).s, cli_count(frequencies).s);
    printf("%-12sfunction %s, draw %s, sampling %s\n", "Made by", bo_function_name(desc->function),
           bo_draw_name(desc->draw), bo_sampling_name(desc->sampling));
}

/* ---- the command --------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int describe(cli_session *session, const char *path)
{
    if (is_folder(path)) return cli_is_network(path) ? cli_info_network(session, path) : cli_info_model(session, path);
    bo_machine *machine = NULL;
    bo_schema *schema = NULL;
    bo_features *map = NULL;
    bo_status status = bo_machine_load(session->context, path, &machine, &schema);
    if (status == BO_OK) {
        (session->common.json ? machine_json : machine_print)(path, bo_machine_describe(machine), schema);
    } else {
        char *words = strdup(bo_context_error(session->context)); /* what to say if it is no map either */
        bool maybe = status == BO_FORMAT || status == BO_UNSUPPORTED || status == BO_INVALID;
        bo_status of_map = maybe ? bo_features_load(session->context, path, &map) : BO_FORMAT;
        if (of_map == BO_OK) {
            (session->common.json ? features_json : features_print)(path, bo_features_describe(map),
                                                                    bo_features_frequencies(map));
            status = BO_OK;
        } else if (of_map != BO_FORMAT && of_map != BO_IO) { /* a map, but a newer one, or larger than memory */
            cli_fail_status(session, of_map);
        } else {
            cli_fail(session, "%s", words ? words : bo_status_string(status));
        }
        free(words);
    }
    bo_machine_destroy(machine);
    bo_schema_destroy(schema);
    bo_features_destroy(map);
    return status == BO_OK ? CLI_DONE : CLI_FAILED;
}

static int info(void *unused, const cli_common *common, const cli_arguments *arguments)
{
    (void)unused;
    if (arguments->count != 1) return cli_wrong_use("info", "expected one FILE or DIR, found %zu", arguments->count);
    cli_session session;
    if (!cli_session_open(&session, "info", common, false)) return CLI_FAILED;
    const int status = describe(&session, arguments->items[0]);
    cli_session_close(&session);
    return status;
}

const cli_usage cli_info_usage = {
    .command = "info",
    .synopsis = "FILE|DIR",
    .about = "Describes a kernel machine or a feature map written by bochner, or the folder of a model of text "
             "or a network.",
    .examples = "  bochner info price.model\n"
                "  bochner info model\n",
};

int cli_info(int argc, char **argv)
{
    return cli_command(&cli_info_usage, argc, argv, NULL, info);
}
