/* adapter_config.json: read, and applied to a small model if it fits. */
#include "fuzz.h"
#include "model/adapter.h"

static bo_model *small_model(bo_context *context)
{
    bo_model *model;
    const bo_model_desc desc = {.layers = 1, .width = 8, .block.heads = 1, .context = 8, .vocab = 16};
    if (bo_model_create(context, &desc, NULL, &model) != BO_OK) abort();
    return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_adapter_config config;
    if (!fuzz_ok(context, bo_adapter_config_parse(context, "fuzz", (const char *)data, size, &config))) return 0;
    const bo_lora_desc desc = {
        .rank = config.rank, .alpha = config.alpha, .targets = config.targets, .whole = config.whole};
    bo_model *model = small_model(context);
    double scale;
    fuzz_ok(context, bo_adapter_config_scale(context, &config, "model.layers.0.self_attn.q_proj", 2, &scale));
    if (fuzz_ok(context, bo_model_adapt(context, model, &desc)) && !model->adapter) abort();
    bo_model_destroy(model);
    bo_adapter_config_free(&config);
    return 0;
}
