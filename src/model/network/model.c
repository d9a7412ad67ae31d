/* Models of the task `predict`: a network under the functions of models. */
#include <string.h>
#include "../enums.h"
#include "../internal.h"
#include "internal.h"

bo_status bo_model_of_network(bo_context *context, bo_network *network, bo_model **out)
{
    *out = bo_alloc(context, 1, sizeof **out, "a model");
    if (!*out) {
        bo_network_destroy(network);
        return BO_MEMORY;
    }
    (*out)->desc = (bo_model_desc){.task = BO_MODEL_TASK_PREDICT,
                                   .classes = network->report.classes,
                                   .parametrization = network->parametrization,
                                   .seed = network->seed};
    (*out)->network = network;
    (*out)->weights = network->weights;
    (*out)->specials = bo_specials_none();
    bo_model_refresh(*out);
    return BO_OK;
}

static bo_status create_network(bo_context *context, const bo_description *desc, bo_model **out)
{
    bo_network *network;
    if (desc->tokenizer)
        return bo_fail(context, BO_INVALID, "%s: found a tokenizer, but the input is not text",
                       desc->where ? desc->where : "model");
    BO_TRY(bo_network_create(context, desc, &network));
    return bo_model_of_network(context, network, out);
}

static bo_status create_text_model(bo_context *context, const bo_description *desc, bo_model **out)
{
    bo_model_desc model;
    if (desc->examples)
        return bo_fail(context, BO_INVALID, "%s: found examples, but the model reads text",
                       desc->where ? desc->where : "model");
    if (desc->width_multiplier != 0 && desc->width_multiplier != 1)
        return bo_fail(context, BO_INVALID, "%s: blocks have no width multiplier: use bo_model_widen()",
                       desc->where ? desc->where : "model");
    BO_TRY(bo_description_read(context, desc->text, desc->where, &model));
    if (desc->parametrization) model.parametrization = desc->parametrization;
    if (desc->seed) model.seed = desc->seed;
    const bool stated = model.layers > 0; /* otherwise every block of the list once */
    for (size_t i = 0; !stated && i < model.block_count; i++)
        model.layers += model.blocks[i].repeat ? model.blocks[i].repeat : 1;
    const bo_status status = bo_model_create(context, &model, desc->tokenizer, out);
    bo_model_desc_release(&model);
    return status;
}

bo_status bo_model_create_described(bo_context *context, const bo_description *desc, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_REQUIRE(context, desc->text);
    bool text;
    BO_TRY(bo_check_reserved(context, "bo_description", desc->reserved));
    BO_TRY(bo_description_reads_text(context, desc->text, desc->where, &text));
    return (text ? create_text_model : create_network)(context, desc, out);
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

bo_status bo_model_require_network(bo_context *context, const bo_model *model, const char *caller)
{
    if (model->network) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s requires a model of the task predict, found %s", caller,
                   bo_model_task_name(model->desc.task));
}
