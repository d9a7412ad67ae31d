/* What tasks of models share. */
#include "models.h"

static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors", NULL};
static const char *const adapter_files[] = {"adapter_config.json", "tokenizer.json", "adapter_model.safetensors", NULL};

const char *const *bo_train_model_files(const bo_model *model)
{
    return model->adapter ? adapter_files : files;
}

bo_status bo_train_model_write(bo_context *context, const bo_train_task *task, const char *folder)
{
    return bo_model_write(context, task->desc->model, folder);
}

bo_status bo_train_model_read(bo_context *context, bo_train_task *task, const char *folder)
{
    return bo_model_read(context, task->desc->model, folder);
}

bo_status bo_train_model_check(bo_context *context, const bo_train_task *task)
{
    const bo_adapter *adapter = task->desc->model->adapter;
    if (adapter && adapter->aside)
        return bo_fail(context, BO_INVALID, "training: the adapters of the model are merged");
    if (adapter && task->desc->calibrate_every)
        return bo_fail(context, BO_INVALID, "calibrate: an adapter has no frequencies of its own");
    return BO_OK;
}

double bo_train_model_row_bytes(const bo_train_task *task, size_t layers)
{
    const bo_model_desc *d = &task->desc->model->desc;
    const double heads = (double)d->heads * (double)d->head_dim, inner = d->mlp == BO_MLP_NONE ? 0 : (double)d->hidden;
    const double layer = 6 * (double)d->width + 8 * heads + 3 * inner;
    const double kept = task->desc->checkpointing ? 1 + 0.1 * (double)layers : (double)layers;
    const double bytes = task->desc->activations == BO_STORAGE_BFLOAT16 ? 2 : 4;
    return bytes * layer * kept + 4 * 4 * (double)d->width;
}

static void adapter_settings(bo_json_text *text, const bo_adapter *adapter)
{
    bo_train_setting_number(text, "lora_rank", (double)adapter->lora.rank);
    bo_train_setting_number(text, "lora_alpha", adapter->lora.alpha);
    bo_train_setting_word(text, "lora_init", bo_lora_init_name(adapter->lora.init));
    bo_train_setting_code(text, "base", adapter->digest);
}

void bo_train_model_settings(const bo_train_task *task, bo_json_text *text)
{
    const bo_model *model = task->desc->model;
    const bo_model_desc *d = &model->desc;
    bo_train_setting_number(text, "layers", (double)d->layers);
    bo_train_setting_number(text, "width", (double)d->width);
    bo_train_setting_number(text, "heads", (double)d->heads);
    bo_train_setting_number(text, "key_heads", (double)d->key_heads);
    bo_train_setting_number(text, "hidden", (double)d->hidden);
    bo_train_setting_number(text, "context", (double)d->context);
    bo_train_setting_number(text, "vocab", (double)d->vocab);
    bo_train_setting_word(text, "attention", bo_attention_name(d->attention.kind));
    bo_train_setting_word(text, "gate", bo_gate_name(d->attention.gate));
    bo_train_setting_number(text, "features", (double)d->attention.features.features);
    bo_train_setting_word(text, "mlp", bo_mlp_name(d->mlp));
    bo_train_setting_word(text, "norm", bo_norm_name(d->norm));
    bo_train_setting_word(text, "positions", bo_positions_name(d->positions));
    bo_train_setting_number(text, "dropout", d->dropout);
    if (model->adapter) adapter_settings(text, model->adapter);
    if (!bo_train_model_calibrates(model)) /* the fingerprint knows the frequencies */
        bo_train_setting_code(text, "model", bo_model_fingerprint(model));
}
