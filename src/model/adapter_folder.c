/* Folders of adapters: loaded with the base they name, and out of merged models. */
#include <string.h>
#include <unistd.h>
#include "adapter.h"
#include "files.h"

static bo_status no_base(bo_context *context, const char *folder, const char *base)
{
    if (!base) return bo_fail(context, BO_FORMAT, "%s: adapter_config.json names no base", folder);
    return bo_fail(context, BO_IO,
                   "%s: its base %s is not there, or no model; write where it is as base_model_name_or_path into "
                   "adapter_config.json",
                   folder, base);
}

static bo_status check_base(bo_context *context, const char *folder, const bo_model *model,
                            const bo_adapter_config *config)
{
    uint64_t digest;
    if (!config->known) return BO_OK;
    BO_TRY(bo_model_digest(context, model, &digest));
    if (digest == config->digest) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: its base %s has other weights by now: expected digest %016llx, found %016llx", folder,
                   config->base, (unsigned long long)config->digest, (unsigned long long)digest);
}

/* What would be the caller's mistake in a descriptor is the file's here. */
static bo_status put_adapters(bo_context *context, const char *folder, bo_model *model, const bo_adapter_config *config)
{
    const bo_lora_desc desc = {.rank = config->rank,
                               .alpha = config->alpha,
                               .targets = config->targets,
                               .whole = config->whole ? config->whole : "",
                               .init = config->init,
                               .base = config->base};
    const bo_status status = bo_model_put_adapters(context, model, &desc);
    if (status != BO_INVALID) return status;
    return bo_fail(context, BO_FORMAT, "%s/adapter_config.json: %s", folder, bo_context_error(context));
}

static bo_status load_onto(bo_context *context, const char *folder, const char *tensors, bo_adapter_config *config,
                           bo_model *model)
{
    BO_TRY(check_base(context, folder, model, config));
    BO_TRY(put_adapters(context, folder, model, config));
    bo_model_keep_adapters(model);
    return bo_adapter_read(context, model, tensors);
}

static bo_status load(bo_context *context, const char *folder, const char *path, const char *tensors, bo_model **out)
{
    bo_adapter_config config;
    bo_model *model = NULL;
    BO_TRY(bo_adapter_config_read(context, path, &config));
    bo_status status = bo_adapter_metadata(context, tensors, &config);
    const bool there = config.base && bo_model_is_folder(config.base);
    if (status == BO_OK && !there) status = no_base(context, folder, config.base);
    if (status == BO_OK) status = bo_model_load(context, config.base, &model);
    if (status == BO_OK) status = load_onto(context, folder, tensors, &config, model);
    bo_adapter_config_free(&config);
    if (status != BO_OK) {
        bo_model_destroy(model);
        return status;
    }
    *out = model;
    return BO_OK;
}

bo_status bo_model_load_adapted(bo_context *context, const char *folder, bo_model **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "model: there is nowhere to put it: out is NULL");
    *out = NULL;
    if (!folder || !*folder) return bo_fail(context, BO_INVALID, "model: no folder was named");
    char *config = bo_model_path(context, folder, "adapter_config.json");
    char *tensors = bo_model_path(context, folder, "adapter_model.safetensors");
    const bo_status status = config && tensors ? load(context, folder, config, tensors, out) : BO_MEMORY;
    bo_free(config);
    bo_free(tensors);
    return status;
}

bo_status bo_model_load_unmerged(bo_context *context, const char *folder, bo_model **out)
{
    bo_model *model;
    BO_TRY(bo_model_load(context, folder, &model));
    char *path = bo_model_path(context, folder, "adapter/base.safetensors");
    bo_status status = path ? BO_OK : BO_MEMORY;
    if (path && access(path, F_OK) != 0)
        status = bo_fail(context, BO_INVALID, "%s: has no adapter/base.safetensors: it is no merged model", folder);
    if (status == BO_OK) status = bo_adapter_read_base(context, model, path);
    bo_free(path);
    if (status != BO_OK) {
        bo_model_destroy(model);
        return status;
    }
    *out = model;
    return BO_OK;
}
