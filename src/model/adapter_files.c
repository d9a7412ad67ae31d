/* Directories of adapters in the format of PEFT: loading an adapter with the base that it names, and extracting it from
 * a merged model. */
#include <bochner/data.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../nn/enums.h"
#include "../io/bytes.h"
#include "../io/numbers.h"
#include "adapter.h"
#include "files.h"

/* ---- original weights of a merged model -------------------------------------------------------------------------- */

static bo_status restore_base(bo_context *context, bo_model *model, const bo_tensors *file)
{
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        const char *name = bo_tensors_at(file, i)->name;
        const bo_weight *weight = bo_weights_find(model->weights, name);
        const bo_file_tensor *tensor;
        if (!weight)
            return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' is not part of the model", bo_tensors_path(file),
                           name);
        BO_TRY(bo_tensors_require(context, file, name, BO_F32, weight->rank, weight->shape, &tensor));
        BO_TRY(bo_buffer_write(context, bo_weights_device(model->weights), weight->data, tensor->data, tensor->bytes));
    }
    return BO_OK;
}

static bo_status read_base(bo_context *context, bo_model *model, const char *path)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    const bo_status status = restore_base(context, model, file);
    bo_tensors_close(file);
    return status;
}

/* ---- metadata and configuration ---------------------------------------------------------------------------------- */

static bo_status read_config(bo_context *context, const char *path, bo_adapter_config *out)
{
    char *text;
    size_t length;
    *out = (bo_adapter_config){0};
    BO_TRY(bo_bytes_text(context, path, &bo_limits_config, &text, &length));
    const bo_status status = bo_adapter_config_parse(context, path, text, length, out);
    bo_free(text);
    return status;
}

/* Warns if α differs from the α that was stored with the tensors. The other members of adapter_config.json are checked
 * against the tensors and the base. */
static void compare_alpha(bo_context *context, const bo_tensors *file, const bo_adapter_config *config)
{
    const char *written = bo_tensors_meta(file, "bochner.alpha");
    char found[BO_NUMBER_TEXT];
    bo_number_format(config->alpha, found, sizeof found);
    if (written && strcmp(written, found) != 0)
        bo_log(
            context, BO_LOG_WARNING,
            "%s: it was written with lora_alpha %.24s, but adapter_config.json has %s: it was edited, or it is damaged",
            bo_tensors_path(file), written, found);
}

/* Replaces a text by the text in the metadata, if present. */
static bo_status read_text(bo_context *context, const bo_tensors *file, const char *key, char **text)
{
    const char *found = bo_tensors_meta(file, key);
    char *copy = found ? bo_strdup(context, found) : NULL;
    if (!found) return BO_OK;
    if (!copy) return BO_MEMORY;
    bo_free(*text);
    *text = copy;
    return BO_OK;
}

/* Reads Bochner's metadata. Sets rank and α of the configuration to the values of training. */
static bo_status read_metadata(bo_context *context, const bo_tensors *file, bo_adapter_config *config)
{
    const char *init = bo_tensors_meta(file, "bochner.init"), *base = bo_tensors_meta(file, "bochner.base");
    if (init && !bo_lora_init_parse(init, &config->init))
        return bo_fail(context, BO_FORMAT, "%s: 'bochner.init': unknown initialization '%.40s'", bo_tensors_path(file),
                       init);
    config->native = init != NULL;
    config->known = base != NULL;
    BO_TRY(read_text(context, file, "bochner.targets", &config->targets));
    BO_TRY(read_text(context, file, "bochner.whole", &config->whole));
    config->digest = base ? strtoull(base, NULL, 16) : 0;
    compare_alpha(context, file, config);
    config->applied = config->alpha;
    if (config->init == BO_LORA_INIT_ZERO) return BO_OK;
    if (config->rank % 2)
        return bo_fail(context, BO_FORMAT, "%s: with initialization %s, expected an even rank, found %zu",
                       bo_tensors_path(file), init, config->rank);
    config->rank /= 2;
    config->applied = config->alpha /= 2;
    return BO_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static bo_status no_base(bo_context *context, const char *directory, const char *base)
{
    if (!base) return bo_fail(context, BO_FORMAT, "%s: adapter_config.json does not name a base model", directory);
    return bo_fail(context, BO_IO,
                   "%s: its base %s is missing or is not a model; set base_model_name_or_path in adapter_config.json "
                   "to its directory",
                   directory, base);
}

static bo_status check_base(bo_context *context, const char *directory, const bo_model *model,
                            const bo_adapter_config *config)
{
    uint64_t digest;
    if (!config->known) return BO_OK;
    BO_TRY(bo_model_digest(context, model, &digest));
    if (digest == config->digest) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: the weights of its base %s have changed: expected digest %016llx, found %016llx", directory,
                   config->base, (unsigned long long)config->digest, (unsigned long long)digest);
}

/* Adds the adapters. Errors of the descriptor are reported as errors in the file. */
static bo_status put_adapters(bo_context *context, const char *directory, bo_model *model,
                              const bo_adapter_config *config)
{
    const bo_lora_desc desc = {.rank = config->rank,
                               .alpha = config->applied,
                               .targets = config->targets,
                               .whole = config->whole ? config->whole : "",
                               .init = config->init,
                               .base = config->base};
    const bo_status status = bo_model_attach_adapters(context, model, &desc, true);
    if (status != BO_INVALID) return status;
    return bo_fail(context, BO_FORMAT, "%s/adapter_config.json: %s", directory, bo_context_error(context));
}

static bo_status load_onto(bo_context *context, const char *directory, const bo_tensors *file,
                           bo_adapter_config *config, bo_model *model)
{
    BO_TRY(check_base(context, directory, model, config));
    if (!config->native) BO_TRY(bo_adapter_derive(context, model, file, config));
    if (!config->targets)
        return bo_fail(context, BO_FORMAT, "%s/adapter_config.json: 'target_modules': expected a list of names",
                       directory);
    BO_TRY(put_adapters(context, directory, model, config));
    bo_model_keep_adapters(model);
    return bo_adapter_read_tensors(context, model, file, config->native ? NULL : config);
}

static bo_status load_base(bo_context *context, const char *directory, const bo_tensors *file,
                           bo_adapter_config *config, bo_model **out)
{
    bo_model *model;
    BO_TRY(read_metadata(context, file, config));
    if (!config->base || !bo_model_is_whole(context, config->base)) return no_base(context, directory, config->base);
    BO_TRY(bo_model_load(context, &(bo_source){.path = config->base}, NULL, &model));
    bo_status status = load_onto(context, directory, file, config, model);
    if (status == BO_OK) status = bo_model_read_template(context, model, directory);
    if (status == BO_OK)
        *out = model;
    else
        bo_model_destroy(model);
    return status;
}

static bo_status load(bo_context *context, const char *directory, const char *path, const char *tensors, bo_model **out)
{
    bo_adapter_config config;
    bo_tensors *file;
    BO_TRY(read_config(context, path, &config));
    bo_status status = bo_tensors_open(context, tensors, &file);
    if (status == BO_OK) status = load_base(context, directory, file, &config, out);
    bo_tensors_close(file);
    bo_adapter_config_free(&config);
    return status;
}

static bo_status no_adapter(bo_context *context, const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISREG(about.st_mode)) BO_TRY(bo_model_refuse_file(context, path));
    return bo_fail(
        context, BO_IO,
        "%s: not the directory of an adapter: it has no adapter_config.json; bochner train --lora and the Python "
        "package peft write one",
        path);
}

bo_status bo_model_load_adapted(bo_context *context, const char *directory, bo_model **out)
{
    if (!*directory) return bo_fail(context, BO_INVALID, "model: expected a directory, found NULL");
    if (access(directory, F_OK) == 0 && !bo_model_holds(directory, "adapter_config.json"))
        return no_adapter(context, directory);
    char *config = bo_model_path(context, directory, "adapter_config.json");
    char *tensors = bo_model_path(context, directory, "adapter_model.safetensors");
    if (!bo_model_holds(directory, "adapter_model.safetensors") && bo_model_holds(directory, "adapter_model.bin")) {
        bo_free(config);
        bo_free(tensors);
        return bo_fail(
            context, BO_UNSUPPORTED,
            "%s: the adapter is in adapter_model.bin, which only PyTorch reads; save it again with the Python "
            "package peft: PeftModel.save_pretrained(\"DIR\", safe_serialization=True)",
            directory);
    }
    const bo_status status = config && tensors ? load(context, directory, config, tensors, out) : BO_MEMORY;
    bo_free(config);
    bo_free(tensors);
    return status;
}

bo_status bo_model_load_unmerged(bo_context *context, const char *directory, bo_model **out)
{
    bo_model *model;
    BO_TRY(bo_model_load(context, &(bo_source){.path = directory}, NULL, &model));
    char *path = bo_model_path(context, directory, "adapter/base.safetensors");
    bo_status status = path ? BO_OK : BO_MEMORY;
    if (path && access(path, F_OK) != 0)
        status = bo_fail(context, BO_INVALID, "%s: not a merged model: adapter/base.safetensors is missing", directory);
    if (status == BO_OK) status = read_base(context, model, path);
    bo_free(path);
    if (status != BO_OK) {
        bo_model_destroy(model);
        return status;
    }
    *out = model;
    return BO_OK;
}
