/* Files of a model's directory: weights in one file or in shards, and the companions, which name the special tokens. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "../io/bytes.h"
#include "../io/checksum.h"
#include "../io/shards.h"
#include "files.h"

char *bo_model_path(bo_context *context, const char *directory, const char *name)
{
    size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = bo_alloc(context, bytes, 1, "a file's name");
    if (path) snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

bool bo_model_holds(const char *directory, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path && access(path, F_OK) == 0;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* True if the weights are a pickle of PyTorch, which only PyTorch reads. */
static bool is_pickled(const char *directory)
{
    return bo_model_holds(directory, "pytorch_model.bin") || bo_model_holds(directory, "pytorch_model.bin.index.json");
}

bo_status bo_model_open_weights(bo_context *context, const char *directory, bo_tensors **out)
{
    static const char whole[] = "model.safetensors", index[] = "model.safetensors.index.json";
    const bool sharded = !bo_model_holds(directory, whole) && bo_model_holds(directory, index);
    *out = NULL;
    if (!sharded && !bo_model_holds(directory, whole) && is_pickled(directory))
        return bo_fail(
            context, BO_UNSUPPORTED,
            "%s: the weights are in pytorch_model.bin, which only PyTorch reads; convert them to "
            "model.safetensors with the Python package transformers: "
            "AutoModelForCausalLM.from_pretrained(\"DIR\").save_pretrained(\"DIR\", safe_serialization=True)",
            directory);
    char *path = bo_model_path(context, directory, sharded ? index : whole);
    if (!path) return BO_MEMORY;
    const bo_status status = (sharded ? bo_shards_open : bo_tensors_open)(context, path, out);
    bo_free(path);
    return status;
}

/* ---- companions: reading ----------------------------------------------------------------------------------------- */

static bo_status read_config(bo_context *context, const char *directory, bo_specials *specials)
{
    char *path = bo_model_path(context, directory, "config.json"), *text = NULL;
    size_t length;
    bo_status status = path ? bo_bytes_text(context, path, &bo_limits_config, &text, &length) : BO_MEMORY;
    if (status == BO_OK) status = bo_specials_read_config(context, path, text, length, specials);
    bo_free(text);
    bo_free(path);
    return status;
}

static bo_status read_companion(bo_context *context, const char *directory, bo_companion which, bo_specials *specials)
{
    char *path = bo_model_path(context, directory, bo_companion_name(which)), *text = NULL;
    size_t length;
    bo_status status = path ? BO_OK : BO_MEMORY;
    if (path && access(path, F_OK) == 0) {
        status = bo_bytes_text(context, path, &bo_limits_config, &text, &length);
        if (status == BO_OK) status = bo_specials_read(context, path, which, text, length, specials);
    }
    bo_free(text);
    bo_free(path);
    return status;
}

static bo_status read_directory(bo_context *context, const char *directory, bo_specials *specials)
{
    BO_TRY(read_config(context, directory, specials));
    for (int i = 0; i < BO_COMPANION_COUNT; i++) BO_TRY(read_companion(context, directory, (bo_companion)i, specials));
    return BO_OK;
}

/* Reads the metadata of a single file. */
static bo_status read_image(bo_context *context, const bo_tensors *image, bo_specials *specials)
{
    const char *config = bo_tensors_meta(image, "config.json");
    BO_TRY(bo_specials_read_config(context, "config.json", config, strlen(config), specials));
    for (int i = 0; i < BO_COMPANION_COUNT; i++) {
        const char *name = bo_companion_name((bo_companion)i), *text = bo_tensors_meta(image, name);
        char *where = text ? bo_model_path(context, bo_tensors_path(image), name) : NULL;
        if (!text) continue;
        const bo_status status =
            where ? bo_specials_read(context, where, (bo_companion)i, text, strlen(text), specials) : BO_MEMORY;
        bo_free(where);
        BO_TRY(status);
    }
    return BO_OK;
}

bo_status bo_model_read_specials(bo_context *context, bo_model *model, const char *directory, const bo_tensors *image)
{
    bo_specials specials = bo_specials_none();
    bo_status status = image ? read_image(context, image, &specials) : read_directory(context, directory, &specials);
    if (status == BO_OK) status = bo_specials_resolve(context, model->tokenizer, model->desc.vocab, &specials);
    if (status == BO_OK) bo_specials_replace(model, &specials);
    bo_specials_free(&specials);
    return status;
}

/* True if the text of a companion has a template; NULL: it has none. */
static bo_status has_template(bo_context *context, bo_companion which, const char *text, bool *out)
{
    enum { DEPTH = 32 };
    bo_json *json;
    *out = text != NULL;
    if (!text || which == BO_COMPANION_CHAT) return BO_OK;
    BO_TRY(bo_json_parse(context, bo_companion_name(which), text, strlen(text), DEPTH, &json));
    const bo_json *member = bo_json_member(json, "chat_template");
    *out = member && !bo_json_is(member, BO_JSON_NULL);
    bo_json_delete(json);
    return BO_OK;
}

static bo_status load_template(bo_context *context, const char *directory, bo_companion which, bo_specials *specials,
                               bool *loaded)
{
    bo_specials found = bo_specials_none();
    bo_status status = read_companion(context, directory, which, &found);
    if (status == BO_OK) status = has_template(context, which, found.texts[which], loaded);
    if (status == BO_OK && *loaded) {
        bo_free(specials->texts[which]);
        specials->texts[which] = found.texts[which];
        found.texts[which] = NULL;
    }
    bo_specials_free(&found);
    return status;
}

bo_status bo_model_read_template(bo_context *context, bo_model *model, const char *directory)
{
    bo_specials *specials = &model->specials;
    bool loaded;
    BO_TRY(load_template(context, directory, BO_COMPANION_CHAT, specials, &loaded));
    if (loaded) return BO_OK;
    BO_TRY(load_template(context, directory, BO_COMPANION_TOKENIZER, specials, &loaded));
    if (!loaded) return BO_OK;
    bo_free(specials->texts[BO_COMPANION_CHAT]); /* of the base, which would have precedence */
    specials->texts[BO_COMPANION_CHAT] = NULL;
    return BO_OK;
}

bo_status bo_model_compare_companions(bo_context *context, const char *directory, const bo_tensors *file,
                                      const bo_model *model)
{
    for (int i = 0; i < BO_COMPANION_COUNT; i++) {
        const char *text = model->specials.texts[i], *key = bo_companion_key((bo_companion)i);
        char sum[BO_CHECKSUM_TEXT];
        if (!text || !bo_tensors_meta(file, key)) continue;
        bo_checksum_text(text, strlen(text), sum);
        char *path = bo_model_path(context, directory, bo_companion_name((bo_companion)i));
        if (!path) return BO_MEMORY;
        bo_tensors_compare(context, file, key, path, sum);
        bo_free(path);
    }
    return BO_OK;
}

/* ---- companions: writing ----------------------------------------------------------------------------------------- */

bo_status bo_package_companions(bo_context *context, const bo_model *model, bo_package *package)
{
    for (int i = 0; i < BO_COMPANION_COUNT; i++)
        if (model->specials.texts[i])
            BO_TRY(bo_package_text(context, package, bo_companion_name((bo_companion)i), model->specials.texts[i]));
    return BO_OK;
}

bo_status bo_package_companion_sums(bo_context *context, const bo_model *model, bo_package *package)
{
    for (int i = 0; i < BO_COMPANION_COUNT; i++) {
        char *text, sum[BO_CHECKSUM_TEXT];
        if (!bo_specials_has(model, (bo_companion)i)) continue;
        BO_TRY(bo_specials_text(context, model, (bo_companion)i, &text));
        bo_checksum_text(text, strlen(text), sum);
        bo_free(text);
        BO_TRY(bo_package_text(context, package, bo_companion_key((bo_companion)i), sum));
    }
    return BO_OK;
}

bo_status bo_model_write_companion(bo_context *context, const bo_model *model, bo_companion which, bo_output *output)
{
    char *text;
    BO_TRY(bo_specials_text(context, model, which, &text));
    const bo_status status = bo_output_write(context, output, text, strlen(text));
    bo_free(text);
    return status;
}
