/* adapter_config.json: the members that PEFT reads, and a refusal of those that mean another computation. */
#include <bochner/data.h>
#include <string.h>
#include "../io/bytes.h"
#include "../io/json.h"
#include "adapter.h"

/* ---- out ---------------------------------------------------------------------------------------------------------- */

/* As PEFT calls them. */
static const char *task_type(bo_model_task task)
{
    return task == BO_MODEL_LANGUAGE ? "CAUSAL_LM" : task == BO_MODEL_TRANSLATE ? "SEQ_2_SEQ_LM" : "SEQ_CLS";
}

static void add_name(bo_json_text *text, const char *name, size_t length)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%.*s", (int)length, name);
    if (text->length && text->bytes[text->length - 1] != '[') bo_json_raw(text, ", ");
    bo_json_string(text, copy);
}

static void add_names(bo_json_text *text, const char *names)
{
    bo_json_raw(text, "[");
    for (const char *at = names + strspn(names, ","); *at; at += strspn(at, ",")) {
        const size_t length = strcspn(at, ",");
        add_name(text, at, length);
        at += length;
    }
    bo_json_raw(text, "]");
}

/* As they were given; patterns, which mean other things to others, as the layers they fit. */
static void add_targets(bo_json_text *text, bo_weights *weights)
{
    const char *targets = bo_weights_lora(weights)->targets;
    bo_lora_site site;
    if (strcmp(targets, "all") == 0) {
        bo_json_raw(text, "\"all-linear\"");
        return;
    }
    if (!strpbrk(targets, "*?[")) {
        add_names(text, targets);
        return;
    }
    bo_json_raw(text, "[");
    for (size_t i = 0; i < bo_weights_count(weights); i++)
        if (bo_lora_site_at(weights, i, &site))
            add_name(text, site.weight->name, strlen(site.weight->name) - strlen(".weight"));
    bo_json_raw(text, "]");
}

bo_status bo_adapter_config_write(bo_context *context, const bo_model *model, const char *path)
{
    const bo_adapter *adapter = model->adapter;
    const size_t ranks = bo_adapter_ranks(&adapter->lora);
    bo_json_text text = {.context = context};
    bo_json_raw(&text, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": ");
    bo_json_string(&text, task_type(model->desc.task));
    bo_json_raw(&text, ",\n  \"base_model_name_or_path\": ");
    if (adapter->base)
        bo_json_string(&text, adapter->base);
    else
        bo_json_raw(&text, "null");
    bo_json_raw(&text, ",\n  \"r\": ");
    bo_json_whole(&text, ranks * adapter->lora.rank);
    bo_json_raw(&text, ",\n  \"lora_alpha\": ");
    bo_json_number(&text, (double)ranks * adapter->lora.alpha);
    bo_json_raw(&text, ",\n  \"target_modules\": ");
    add_targets(&text, bo_adapter_weights(model));
    if (*adapter->lora.whole) {
        bo_json_raw(&text, ",\n  \"modules_to_save\": ");
        add_names(&text, adapter->lora.whole);
    }
    bo_json_raw(&text, ",\n  \"lora_dropout\": 0,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                       "  \"inference_mode\": true\n}\n");
    const bo_status status = text.failed ? BO_MEMORY : bo_file_write(context, path, text.bytes, text.length);
    bo_free(text.bytes);
    return status;
}

/* ---- in ----------------------------------------------------------------------------------------------------------- */

static bool is_empty(const cJSON *item)
{
    return !item || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
           ((cJSON_IsObject(item) || cJSON_IsArray(item)) && !item->child) ||
           (cJSON_IsString(item) && strcmp(item->valuestring, "none") == 0);
}

static bo_status refuse_others(bo_context *context, const char *path, const cJSON *json)
{
    static const char *const others[] = {
        "use_dora",       "use_rslora",          "bias",          "rank_pattern", "alpha_pattern",
        "layers_pattern", "layers_to_transform", "fan_in_fan_out"};
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(json, "peft_type");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "LORA") != 0)
        return bo_fail(context, BO_FORMAT, "%s: 'peft_type': expected \"LORA\", found %.40s", path,
                       cJSON_IsString(type) ? type->valuestring : "none");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!is_empty(cJSON_GetObjectItemCaseSensitive(json, others[i])))
            return bo_fail(context, BO_UNSUPPORTED, "%s: '%s' is set, which is not understood", path, others[i]);
    return BO_OK;
}

/* A list of names joined by commas. */
static bo_status read_names(bo_context *context, const char *path, const cJSON *item, const char *what,
                            const char *expected, char **out)
{
    bo_json_text text = {.context = context};
    bool good = cJSON_IsArray(item) && item->child;
    for (const cJSON *name = good ? item->child : NULL; name; name = name->next) {
        good = good && cJSON_IsString(name) && *name->valuestring && !strpbrk(name->valuestring, ",*?[");
        if (!good) break;
        if (text.length) bo_json_raw(&text, ",");
        bo_json_raw(&text, name->valuestring);
    }
    *out = text.bytes;
    if (good) return text.failed ? BO_MEMORY : BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: '%s': expected %s", path, what, expected);
}

static bo_status read_targets(bo_context *context, const char *path, const cJSON *json, bo_adapter_config *out)
{
    const cJSON *targets = cJSON_GetObjectItemCaseSensitive(json, "target_modules");
    const cJSON *whole = cJSON_GetObjectItemCaseSensitive(json, "modules_to_save");
    if (!is_empty(whole))
        BO_TRY(read_names(context, path, whole, "modules_to_save", "a list of names, or null", &out->whole));
    if (!cJSON_IsString(targets) || strcmp(targets->valuestring, "all-linear") != 0)
        return read_names(context, path, targets, "target_modules", "\"all-linear\" or a list of names", &out->targets);
    out->targets = bo_strdup(context, "all");
    return out->targets ? BO_OK : BO_MEMORY;
}

static bo_status read_members(bo_context *context, const char *path, const cJSON *json, bo_adapter_config *out)
{
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(json, "r");
    const cJSON *alpha = cJSON_GetObjectItemCaseSensitive(json, "lora_alpha");
    const cJSON *base = cJSON_GetObjectItemCaseSensitive(json, "base_model_name_or_path");
    BO_TRY(refuse_others(context, path, json));
    if (!bo_json_size(rank, &out->rank) || out->rank < 1)
        return bo_fail(context, BO_FORMAT, "%s: 'r': expected a whole number of at least 1", path);
    if (!cJSON_IsNumber(alpha) || !(alpha->valuedouble > 0))
        return bo_fail(context, BO_FORMAT, "%s: 'lora_alpha': expected a number above 0", path);
    out->alpha = alpha->valuedouble;
    if (cJSON_IsString(base)) out->base = bo_strdup(context, base->valuestring);
    if (cJSON_IsString(base) && !out->base) return BO_MEMORY;
    return read_targets(context, path, json, out);
}

bo_status bo_adapter_config_parse(bo_context *context, const char *where, const char *text, size_t length,
                                  bo_adapter_config *out)
{
    cJSON *json;
    *out = (bo_adapter_config){0};
    BO_TRY(bo_json_parse(context, where, text, length, 8, &json));
    const bo_status status = read_members(context, where, json, out);
    cJSON_Delete(json);
    if (status != BO_OK) bo_adapter_config_free(out);
    return status;
}

bo_status bo_adapter_config_read(bo_context *context, const char *path, bo_adapter_config *out)
{
    char *text;
    size_t length;
    *out = (bo_adapter_config){0};
    BO_TRY(bo_bytes_text(context, path, &text, &length));
    const bo_status status = bo_adapter_config_parse(context, path, text, length, out);
    bo_free(text);
    return status;
}

void bo_adapter_config_free(bo_adapter_config *config)
{
    bo_free(config->targets);
    bo_free(config->whole);
    bo_free(config->base);
    *config = (bo_adapter_config){0};
}
