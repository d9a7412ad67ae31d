/* bochner info: embeddings. */
#include "info.h"
#include <stdio.h>

static void embedding_json(const char *path, const bo_embedding *embedding)
{
    const bo_embedding_report *report = bo_embedding_describe(embedding);
    cli_json json = {.out = stdout};
    cli_info_json_file(&json, path, "embedding");
    cli_json_add_count(&json, "rows", report->rows);
    cli_json_add_count(&json, "dim", report->dim);
    cli_json_add_count(&json, "components", report->components);
    cli_json_add_count(&json, "features", report->features);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    cli_json_add_number(&json, "gamma", report->gamma);
    cli_json_add_text(&json, "scaling", bo_enum_name(BO_ENUM_SCALING, report->scaling));
    cli_json_add_number(&json, "feature_error", report->feature_error);
    cli_json_add_number(&json, "input_error", report->input_error);
    cli_json_end(&json);
}

static void embedding_print(const char *path, const bo_embedding *embedding, const bo_schema *schema)
{
    const bo_embedding_report *report = bo_embedding_describe(embedding);
    printf("%s: an embedding with %s components (%s)\n", path, cli_count(report->components).s,
           cli_bytes(cli_info_file_size(path)).s);
    if (schema) cli_info_names("Inputs", bo_schema_describe(schema)->inputs, bo_schema_describe(schema)->input_names);
    printf("%-12s%s rows\n", "Fitted on", cli_count(report->rows).s);
    printf("%-12s%s, gamma %s; %s features (%s, %s)\n", "Kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel),
           cli_significant(report->gamma, 4).s, cli_count(report->features).s,
           bo_enum_name(BO_ENUM_FUNCTION, report->function), bo_enum_name(BO_ENUM_DRAW, report->draw));
    printf("%-12s%.2f%% of the variance of the features is outside the components; %.2f%% of that of the inputs\n",
           "Error", 100 * report->feature_error, 100 * report->input_error);
}

void cli_info_embedding(const cli_session *session, const char *path, const bo_embedding *embedding,
                        const bo_schema *schema)
{
    if (session->common.json)
        embedding_json(path, embedding);
    else
        embedding_print(path, embedding, schema);
}
