/* bochner info: text models. */
#include "info_model.h"
#include "../text/text_tasks.h"
#include <math.h>
#include <stdio.h>

bo_model_desc cli_info_encoder(const bo_model_desc *d)
{
    return (bo_model_desc){.layers = d->encoder_layers,
                           .block = d->encoder,
                           .blocks = d->encoder_blocks,
                           .block_count = d->encoder_block_count};
}

/* The adapter in the directory, which bo_model_load has merged. */
static cli_info_adapter find_adapter(cli_session *session, const char *directory)
{
    bo_json *json = cli_read_json(session, directory, "adapter_config.json");
    const char *base = bo_json_text_or_null(bo_json_member(json, "base_model_name_or_path"));
    cli_info_adapter found = {.rank = cli_json_number(json, "r")};
    snprintf(found.base, sizeof found.base, "%s", base ? base : "");
    bo_json_delete(json);
    return found;
}

/* State bytes per sequence (for texts, only if all layers are causal), or per hypothesis with its share of the
 * source. */
static bo_status find_state(bo_context *context, const bo_model *model, size_t *bytes)
{
    const bo_model_task task = bo_model_describe(model)->task;
    *bytes = bo_model_report(model)->state_bytes;
    const bool session = task == BO_MODEL_TASK_LANGUAGE || task == BO_MODEL_TASK_TRANSLATE;
    return session ? bo_session_estimate(context, model, NULL, bytes, NULL) : BO_OK;
}

int cli_info_model(cli_session *session, const char *directory, const cli_profile_options *options)
{
    bo_model *model = NULL;
    cli_info_report report = {.directory = directory};
    const bo_profile_desc desc = cli_profile_desc(options, &session->common);
    bo_status status = bo_model_load(session->context, &(bo_source){.path = directory}, NULL, &model);
    if (status == BO_OK) status = find_state(session->context, model, &report.state_bytes);
    if (status == BO_OK && options->graph) status = bo_model_profile(session->context, model, &desc, &report.profile);
    int result = status == BO_OK ? CLI_DONE
                 : model         ? cli_fail_status(session, status)
                                 : cli_fail_model(session, directory, status);
    if (report.profile) result = cli_profile_draw(session, options, report.profile);
    if (result == CLI_DONE) {
        report.model = model;
        report.desc = bo_model_describe(model);
        report.tokenizer = bo_model_tokenizer(model);
        cli_run_find(session, directory, &report.run);
        report.adapter = find_adapter(session, directory);
        (session->common.json ? cli_info_model_json : cli_info_model_print)(&report);
        if (report.profile && !session->common.json) cli_profile_print(report.profile);
    }
    bo_profile_destroy(report.profile);
    bo_model_destroy(model);
    return result;
}
