/* adapter_config.json: the members that PEFT reads. Members that specify another computation are refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../io/json.h"
#include "../text/pattern.h"
#include "adapter.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Returns PEFT's name of the task. */
static const char *task_type(bo_model_task task)
{
    return task == BO_MODEL_TASK_LANGUAGE ? "CAUSAL_LM" : task == BO_MODEL_TASK_TRANSLATE ? "SEQ_2_SEQ_LM" : "SEQ_CLS";
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

/* True if the modules are Bochner's layers. */
static bool is_plain(const bo_adapter_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->layers[i].at.tensor, list->layers[i].site.weight->name) != 0) return false;
    return true;
}

/* Writes the targets of the descriptor if PEFT finds the same layers. A pattern is written as its matching modules,
 * because other programs interpret patterns differently. */
static void add_targets(bo_json_text *text, const char *targets, const bo_adapter_list *list)
{
    if (is_plain(list) && strcmp(targets, "all") == 0) {
        bo_json_raw(text, "\"all-linear\"");
        return;
    }
    if (is_plain(list) && !strpbrk(targets, "*?[")) {
        add_names(text, targets);
        return;
    }
    bo_json_raw(text, "[");
    for (size_t i = 0; i < list->module_count; i++)
        add_name(text, list->modules[i].name, strlen(list->modules[i].name));
    bo_json_raw(text, "]");
}

/* Writes the modules of the layers that are trained in full. */
static void add_whole(bo_json_text *text, const bo_model *model)
{
    bo_weights *weights = bo_adapter_weights(model);
    char last[BO_ADAPTER_NAME] = "";
    bo_json_raw(text, "[");
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        if (!bo_lora_is_whole(weights, weight)) continue;
        const bo_weight_place at = bo_family_place(model->family, &model->desc, weight);
        const size_t length = (size_t)(strrchr(at.tensor, '.') - at.tensor);
        if (strlen(last) == length && strncmp(last, at.tensor, length) == 0) continue; /* a bias of the same module */
        snprintf(last, sizeof last, "%.*s", (int)length, at.tensor);
        add_name(text, last, length);
    }
    bo_json_raw(text, "]");
}

/* Writes a pattern with `each` per layer for the modules that several layers share. */
static void add_pattern(bo_json_text *text, const char *name, const bo_adapter_list *list, double each)
{
    size_t written = 0;
    for (size_t i = 0; i < list->module_count; i++) {
        if (list->modules[i].layers < 2) continue;
        bo_json_raw(text, written++ ? ", " : ",\n  ");
        if (written == 1) {
            bo_json_string(text, name);
            bo_json_raw(text, ": {");
        }
        bo_json_string(text, list->modules[i].name);
        bo_json_raw(text, ": ");
        bo_json_number(text, (double)list->modules[i].layers * each);
    }
    if (written) bo_json_raw(text, "}");
}

static bool any_transposed(const bo_adapter_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->layers[i].at.transposed) return true;
    return false;
}

static void write_members(bo_json_text *text, const bo_model *model, const bo_adapter_list *list)
{
    const bo_adapter *adapter = model->adapter;
    const size_t ranks = bo_adapter_ranks(&adapter->lora), rank = ranks * adapter->lora.rank;
    const double alpha = (double)ranks * adapter->lora.alpha;
    bo_json_raw(text, "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": ");
    bo_json_string(text, task_type(model->desc.task));
    bo_json_raw(text, ",\n  \"base_model_name_or_path\": ");
    if (adapter->base)
        bo_json_string(text, adapter->base);
    else
        bo_json_raw(text, "null");
    bo_json_raw(text, ",\n  \"r\": ");
    bo_json_whole(text, rank);
    bo_json_raw(text, ",\n  \"lora_alpha\": ");
    bo_json_number(text, alpha);
    bo_json_raw(text, ",\n  \"target_modules\": ");
    add_targets(text, adapter->lora.targets, list);
    add_pattern(text, "rank_pattern", list, (double)rank);
    add_pattern(text, "alpha_pattern", list, alpha);
    if (*adapter->lora.whole) {
        bo_json_raw(text, ",\n  \"modules_to_save\": ");
        if (model->family == BO_FAMILY_BOCHNER)
            add_names(text, adapter->lora.whole);
        else
            add_whole(text, model);
    }
    bo_json_raw(text, ",\n  \"lora_dropout\": 0,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": ");
    bo_json_raw(text, any_transposed(list) ? "true" : "false");
    bo_json_raw(text, ",\n  \"inference_mode\": true\n}\n");
}

bo_status bo_adapter_config_write(bo_context *context, const bo_model *model, bo_output *output)
{
    bo_json_text text = {.context = context};
    bo_adapter_list list;
    BO_TRY(bo_adapter_list_create(context, model, model->family, &list));
    write_members(&text, model, &list);
    bo_adapter_list_free(&list);
    const bo_status status = text.failed ? BO_MEMORY : bo_output_write(context, output, text.bytes, text.length);
    bo_free(text.bytes);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool is_empty(const bo_json *item)
{
    return !item || bo_json_is(item, BO_JSON_NULL) || bo_json_is(item, BO_JSON_FALSE) ||
           ((bo_json_is(item, BO_JSON_OBJECT) || bo_json_is(item, BO_JSON_ARRAY)) && !item->child) ||
           (bo_json_is(item, BO_JSON_TEXT) && strcmp(item->text, "none") == 0);
}

/* Some initializations change the weights of the base. These weights are then part of the adapter. */
static bo_status refuse_init(bo_context *context, const char *path, const bo_json *init)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const char *name = bo_json_text_or_null(init);
    for (size_t i = 0; name && i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(name, harmless[i]) == 0) return BO_OK;
    if (!name) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED,
                   "%s: 'init_lora_weights' is %.40s, which changes the weights of the base; convert the adapter with "
                   "PEFT first (path_initial_model_for_weight_conversion of save_pretrained)",
                   path, name);
}

static bo_status refuse_unsupported(bo_context *context, const char *path, const bo_json *json)
{
    static const char *const unsupported[] = {"use_dora",
                                              "bias",
                                              "lora_bias",
                                              "layer_replication",
                                              "megatron_config",
                                              "use_qalora",
                                              "trainable_token_indices",
                                              "target_parameters",
                                              "alora_invocation_tokens",
                                              "use_bdlora",
                                              "arrow_config",
                                              "velora_config",
                                              "monteclora_config",
                                              "kasa_config"};
    const bo_json *type = bo_json_member(json, "peft_type");
    if (!bo_json_is(type, BO_JSON_TEXT) || strcmp(type->text, "LORA") != 0)
        return bo_fail(context, BO_FORMAT, "%s: 'peft_type': expected \"LORA\", found %.40s", path,
                       bo_json_is(type, BO_JSON_TEXT) ? type->text : "none");
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (!is_empty(bo_json_member(json, unsupported[i])))
            return bo_fail(context, BO_UNSUPPORTED, "%s: '%s' is set, which is not supported", path, unsupported[i]);
    return refuse_init(context, path, bo_json_member(json, "init_lora_weights"));
}

/* Reads a list of names and joins them with commas. */
static bo_status read_names(bo_context *context, const char *path, const bo_json *item, const char *what,
                            const char *expected, char **out)
{
    bo_json_text text = {.context = context};
    bool good = bo_json_is(item, BO_JSON_ARRAY) && item->child;
    for (const bo_json *name = good ? item->child : NULL; name; name = name->next) {
        good = good && bo_json_is(name, BO_JSON_TEXT) && *name->text && !strpbrk(name->text, ",*?[");
        if (!good) break;
        if (text.length) bo_json_raw(&text, ",");
        bo_json_raw(&text, name->text);
    }
    *out = text.bytes;
    if (good) return text.failed ? BO_MEMORY : BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: '%s': expected %s", path, what, expected);
}

static bo_status read_targets(bo_context *context, const char *path, const bo_json *json, bo_adapter_config *out)
{
    const bo_json *targets = bo_json_member(json, "target_modules");
    const bo_json *whole = bo_json_member(json, "modules_to_save");
    if (!is_empty(whole))
        BO_TRY(read_names(context, path, whole, "modules_to_save", "a list of names, or null", &out->whole));
    if (!bo_json_is(targets, BO_JSON_TEXT))
        return read_names(context, path, targets, "target_modules",
                          "\"all-linear\", a list of names or a regular expression", &out->targets);
    if (strcmp(targets->text, "all-linear") != 0) return BO_OK;
    out->targets = bo_strdup(context, "all");
    return out->targets ? BO_OK : BO_MEMORY;
}

static bo_status read_patterns(bo_context *context, const char *path, const bo_json *item, bo_adapter_config *out)
{
    const bo_json *pattern;
    if (is_empty(item)) return BO_OK;
    if (!bo_json_is(item, BO_JSON_OBJECT))
        return bo_fail(context, BO_FORMAT, "%s: 'alpha_pattern': expected an object with names and numbers", path);
    out->patterns = bo_alloc(context, (size_t)bo_json_count(item), sizeof *out->patterns, "patterns of an adapter");
    if (!out->patterns) return BO_MEMORY;
    BO_JSON_EACH(pattern, item)
    {
        bo_adapter_pattern *made = &out->patterns[out->pattern_count];
        if (!bo_json_is(pattern, BO_JSON_NUMBER) || !(pattern->number > 0) || !isfinite(pattern->number))
            return bo_fail(context, BO_FORMAT, "%s: 'alpha_pattern': '%.100s': expected a number above 0", path,
                           pattern->key);
        *made = (bo_adapter_pattern){bo_strdup(context, pattern->key), pattern->number};
        if (!made->expression) return BO_MEMORY;
        out->pattern_count++;
    }
    return BO_OK;
}

static bo_status read_members(bo_context *context, const char *path, const bo_json *json, bo_adapter_config *out)
{
    const bo_json *rank = bo_json_member(json, "r");
    const bo_json *alpha = bo_json_member(json, "lora_alpha");
    const bo_json *base = bo_json_member(json, "base_model_name_or_path");
    BO_TRY(refuse_unsupported(context, path, json));
    if (!bo_json_size(rank, &out->rank) || out->rank < 1)
        return bo_fail(context, BO_FORMAT, "%s: 'r': expected a whole number of at least 1", path);
    if (!bo_json_is(alpha, BO_JSON_NUMBER) || !(alpha->number > 0) || !isfinite(alpha->number))
        return bo_fail(context, BO_FORMAT, "%s: 'lora_alpha': expected a number above 0", path);
    out->alpha = alpha->number;
    out->square_root = bo_json_is(bo_json_member(json, "use_rslora"), BO_JSON_TRUE);
    BO_TRY(read_patterns(context, path, bo_json_member(json, "alpha_pattern"), out));
    if (bo_json_is(base, BO_JSON_TEXT)) out->base = bo_strdup(context, base->text);
    if (bo_json_is(base, BO_JSON_TEXT) && !out->base) return BO_MEMORY;
    return read_targets(context, path, json, out);
}

bo_status bo_adapter_config_parse(bo_context *context, const char *where, const char *text, size_t length,
                                  bo_adapter_config *out)
{
    bo_json *json;
    *out = (bo_adapter_config){0};
    BO_TRY(bo_json_parse(context, where, text, length, 8, &json));
    const bo_status status = read_members(context, where, json, out);
    bo_json_delete(json);
    if (status != BO_OK) bo_adapter_config_free(out);
    return status;
}

void bo_adapter_config_free(bo_adapter_config *config)
{
    bo_free(config->targets);
    bo_free(config->whole);
    bo_free(config->base);
    for (size_t i = 0; i < config->pattern_count; i++) bo_free(config->patterns[i].expression);
    bo_free(config->patterns);
    *config = (bo_adapter_config){0};
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

/* Tests (.*\\.)?(expression)$ on the name of a module, as PEFT does. */
static bo_status matches(bo_context *context, const char *expression, const char *module, bool *out)
{
    char whole[512];
    bo_pattern pattern = {0};
    bo_matcher matcher = {0};
    size_t begin, end;
    *out = false;
    if (snprintf(whole, sizeof whole, "^(?:.*\\.)?(?:%s)$", expression) >= (int)sizeof whole)
        return bo_fail(context, BO_UNSUPPORTED, "adapter_config.json: 'alpha_pattern': '%.60s…' is too long",
                       expression);
    BO_TRY(bo_pattern_compile(context, "adapter_config.json: 'alpha_pattern'", whole, &pattern));
    bo_status status = bo_matcher_create(context, &matcher);
    if (status == BO_OK) status = bo_pattern_find(context, &pattern, &matcher, module, strlen(module), 0, &begin, &end);
    if (status == BO_OK) *out = begin < end;
    bo_matcher_free(&matcher);
    bo_pattern_free(&pattern);
    return status;
}

bo_status bo_adapter_config_scale(bo_context *context, const bo_adapter_config *config, const char *module, size_t rank,
                                  double *out)
{
    double alpha = config->alpha;
    bool found = false;
    for (size_t i = 0; i < config->pattern_count && !found; i++) {
        BO_TRY(matches(context, config->patterns[i].expression, module, &found));
        if (found) alpha = config->patterns[i].alpha;
    }
    *out = alpha / (config->square_root ? sqrt((double)rank) : (double)rank);
    return BO_OK;
}
