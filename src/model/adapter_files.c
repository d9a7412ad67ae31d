/* Adapters in the file format of PEFT: adapter_config.json, adapter_model.safetensors, and the folder with both. */
#include <bochner/data.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../io/bytes.h"
#include "../io/json.h"
#include "../io/numbers.h"
#include "../io/tensors.h"
#include "../kernels/kernels.h"
#include "adapter.h"
#include "files.h"

/* Returns the weights with the adapters: those of the model, or the separate set if the adapters are merged. */
static bo_weights *adapter_weights(const bo_model *model)
{
    return model->adapter->aside ? model->adapter->aside : model->weights;
}

/* ====================================================================================================================
 * adapter_config.json: the members that PEFT reads. Members that mean a different computation are refused. */

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

/* Writes the targets as they were given. A pattern is written as the layers that it matches, since other programs
 * interpret patterns differently. */
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

bo_status bo_adapter_config_write(bo_context *context, const bo_model *model, bo_output *output)
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
    add_targets(&text, adapter_weights(model));
    if (*adapter->lora.whole) {
        bo_json_raw(&text, ",\n  \"modules_to_save\": ");
        add_names(&text, adapter->lora.whole);
    }
    bo_json_raw(&text, ",\n  \"lora_dropout\": 0,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                       "  \"inference_mode\": true\n}\n");
    const bo_status status = text.failed ? BO_MEMORY : bo_output_write(context, output, text.bytes, text.length);
    bo_free(text.bytes);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

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
            return bo_fail(context, BO_UNSUPPORTED, "%s: '%s' is set, which is not supported", path, others[i]);
    return BO_OK;
}

/* Reads a list of names and joins them with commas. */
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

void bo_adapter_config_free(bo_adapter_config *config)
{
    bo_free(config->targets);
    bo_free(config->whole);
    bo_free(config->base);
    *config = (bo_adapter_config){0};
}

/* ====================================================================================================================
 * adapter_model.safetensors, and the original weights that a merged model keeps.
 *
 * PEFT computes an adapter as (α / r) B A. An adapter that did not start at zero is written as [B, -B0] [A; A0] with
 * twice the rank and α. "bochner.init" in the metadata marks it, so that reading separates the two parts again. */

enum { NAME = 320 };

static size_t count_sites(bo_weights *weights)
{
    bo_lora_site site;
    size_t count = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++) count += bo_lora_site_at(weights, i, &site);
    return count;
}

static size_t numbers(const bo_weight *weight)
{
    return weight ? weight->rows * weight->columns : 0;
}

static size_t count_whole(bo_weights *weights)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++)
        count += bo_lora_is_whole(weights, bo_weights_at(weights, i));
    return count;
}

size_t bo_adapter_whole_numbers(bo_weights *weights)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        if (bo_lora_is_whole(weights, weight)) count += numbers(weight);
    }
    return count;
}

static void name_of(const bo_weight *weight, const char *letter, char out[NAME])
{
    const size_t layer = strlen(weight->name) - strlen(".weight");
    snprintf(out, NAME, "base_model.model.%.*s.lora_%s.weight", (int)layer, weight->name, letter);
}

static void name_of_whole(const bo_weight *weight, char out[NAME])
{
    snprintf(out, NAME, "base_model.model.%s", weight->name);
}

/* ---- one layer --------------------------------------------------------------------------------------------------- */

/* Reads [A; A0], the rows of A0 below those of A. */
static bo_status read_a(bo_context *context, const bo_backend *backend, const bo_lora_site *site, float *out)
{
    BO_TRY(backend->read(context, out, site->a->data, numbers(site->a) * sizeof *out));
    if (!site->a0) return BO_OK;
    return backend->read(context, out + numbers(site->a), site->a0->data, numbers(site->a0) * sizeof *out);
}

/* Copies one half of [B, -B0] from contiguous memory into rows of length `stride`. */
static void spread(const float *from, size_t rows, size_t rank, size_t stride, float sign, float *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < rank; k++) to[i * stride + k] = sign * from[i * rank + k];
}

static void collect(const float *from, size_t rows, size_t rank, size_t stride, float sign, float *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < rank; k++) to[i * rank + k] = sign * from[i * stride + k];
}

static bo_status read_b(bo_context *context, const bo_backend *backend, const bo_lora_site *site, float *room,
                        float *out)
{
    const size_t rows = site->b->rows, rank = site->b->columns, stride = site->b0 ? 2 * rank : rank;
    BO_TRY(backend->read(context, room, site->b->data, numbers(site->b) * sizeof *out));
    spread(room, rows, rank, stride, 1, out);
    if (!site->b0) return BO_OK;
    BO_TRY(backend->read(context, room, site->b0->data, numbers(site->b0) * sizeof *out));
    spread(room, rows, rank, stride, -1, out + rank);
    return BO_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Tensors to be written into a file; `room` has space for one B. */
typedef struct package {
    bo_file_tensor *tensors;
    char (*names)[NAME];
    size_t count;
    float *host, *room;
} package;

static bo_status make_package(bo_context *context, bo_weights *weights, package *p)
{
    size_t floats = bo_adapter_whole_numbers(weights), largest = 0;
    const size_t tensors = 2 * count_sites(weights) + count_whole(weights);
    bo_lora_site site;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        if (!bo_lora_site_at(weights, i, &site)) continue;
        floats += numbers(site.a) + numbers(site.b) + numbers(site.a0) + numbers(site.b0);
        if (numbers(site.b) > largest) largest = numbers(site.b);
    }
    *p = (package){0};
    p->tensors = bo_alloc(context, tensors, sizeof *p->tensors, "an adapter");
    p->names = bo_alloc(context, tensors, sizeof *p->names, "an adapter");
    p->host = bo_alloc_raw(context, floats, sizeof *p->host, "an adapter");
    p->room = bo_alloc_raw(context, largest, sizeof *p->room, "an adapter");
    return p->tensors && p->names && p->host && p->room ? BO_OK : BO_MEMORY;
}

static void free_package(package *p)
{
    bo_free(p->tensors);
    bo_free(p->names);
    bo_free(p->host);
    bo_free(p->room);
}

static bo_file_tensor tensor_of(const char *name, const bo_weight *weight, const float *data)
{
    bo_file_tensor tensor = {.name = name, .dtype = BO_F32, .rank = weight->rank, .data = data};
    memcpy(tensor.shape, weight->shape, weight->rank * sizeof *weight->shape);
    tensor.bytes = numbers(weight) * sizeof *data;
    return tensor;
}

static float *add_tensor(package *p, const bo_weight *weight, const char *letter, size_t rows, size_t columns,
                         float *data)
{
    bo_file_tensor *tensor = &p->tensors[p->count];
    name_of(weight, letter, p->names[p->count]);
    *tensor = (bo_file_tensor){p->names[p->count], BO_F32, 2, {rows, columns}, data, rows * columns * sizeof *data};
    p->count++;
    return data + rows * columns;
}

static bo_status add_whole(bo_context *context, package *p, bo_weights *weights, float *at)
{
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const size_t bytes = numbers(weight) * sizeof *at;
        if (!bo_lora_is_whole(weights, weight)) continue;
        BO_TRY(bo_weights_backend(weights)->read(context, at, weight->data, bytes));
        name_of_whole(weight, p->names[p->count]);
        p->tensors[p->count] = tensor_of(p->names[p->count], weight, at);
        p->count++;
        at += numbers(weight);
    }
    return BO_OK;
}

static bo_status fill_package(bo_context *context, bo_weights *weights, package *p)
{
    const bo_backend *backend = bo_weights_backend(weights);
    const bo_lora *lora = bo_weights_lora(weights);
    const size_t rank = bo_adapter_ranks(lora) * lora->rank;
    float *at = p->host;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_lora_site site;
        if (!bo_lora_site_at(weights, i, &site)) continue;
        BO_TRY(read_a(context, backend, &site, at));
        at = add_tensor(p, site.weight, "A", rank, site.a->columns, at);
        BO_TRY(read_b(context, backend, &site, p->room, at));
        at = add_tensor(p, site.weight, "B", site.b->rows, rank, at);
    }
    return add_whole(context, p, weights, at);
}

bo_status bo_adapter_write(bo_context *context, const bo_model *model, bo_output *output)
{
    bo_weights *weights = adapter_weights(model);
    const bo_lora *lora = &model->adapter->lora;
    char digest[24], alpha[BO_NUMBER_TEXT];
    package p;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)model->adapter->digest);
    bo_number_format((double)bo_adapter_ranks(lora) * lora->alpha, alpha, sizeof alpha);
    const bo_meta metas[] = {{"format", "pt"},
                             {"bochner.init", bo_lora_init_name(lora->init)},
                             {"bochner.base", digest},
                             {"bochner.alpha", alpha}};
    bo_status status = make_package(context, weights, &p);
    if (status == BO_OK) status = fill_package(context, weights, &p);
    if (status == BO_OK)
        status = bo_tensors_write_output(context, output, p.tensors, p.count, metas, sizeof metas / sizeof *metas);
    free_package(&p);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status find(bo_context *context, const bo_tensors *file, const bo_weight *weight, const char *letter,
                      size_t rows, size_t columns, const float **out)
{
    char name[NAME];
    const bo_file_tensor *tensor;
    const size_t shape[] = {rows, columns};
    name_of(weight, letter, name);
    BO_TRY(bo_tensors_require(context, file, name, BO_F32, 2, shape, &tensor));
    if (!bo_context_kernels(context)->finite(rows * columns, tensor->data))
        return bo_fail(context, BO_FORMAT, "%s: tensor '%s' holds a number that is not finite", bo_tensors_path(file),
                       name);
    *out = tensor->data;
    return BO_OK;
}

static bo_status write_b(bo_context *context, const bo_backend *backend, const bo_weight *weight, const float *from,
                         size_t stride, float sign, float *room)
{
    collect(from, weight->rows, weight->columns, stride, sign, room);
    return backend->write(context, weight->data, room, numbers(weight) * sizeof *room);
}

static bo_status take_site(bo_context *context, const bo_backend *backend, const bo_lora_site *site,
                           const bo_tensors *file, float *room)
{
    const size_t rank = site->a->rows, stride = site->a0 ? 2 * rank : rank;
    const float *a, *b;
    BO_TRY(find(context, file, site->weight, "A", stride, site->a->columns, &a));
    BO_TRY(find(context, file, site->weight, "B", site->b->rows, stride, &b));
    BO_TRY(backend->write(context, site->a->data, a, numbers(site->a) * sizeof *a));
    BO_TRY(write_b(context, backend, site->b, b, stride, 1, room));
    if (!site->a0) return BO_OK;
    BO_TRY(backend->write(context, site->a0->data, a + numbers(site->a), numbers(site->a0) * sizeof *a));
    return write_b(context, backend, site->b0, b + rank, stride, -1, room);
}

static bo_status take_whole(bo_context *context, bo_weights *weights, const bo_tensors *file)
{
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const bo_file_tensor *tensor;
        char name[NAME];
        if (!bo_lora_is_whole(weights, weight)) continue;
        name_of_whole(weight, name);
        BO_TRY(bo_tensors_require(context, file, name, BO_F32, weight->rank, weight->shape, &tensor));
        BO_TRY(bo_weights_backend(weights)->write(context, weight->data, tensor->data, tensor->bytes));
    }
    return BO_OK;
}

static bo_status take_all(bo_context *context, bo_weights *weights, const bo_tensors *file)
{
    const size_t sites = count_sites(weights), whole = count_whole(weights);
    bo_lora_site site;
    if (bo_tensors_count(file) != 2 * sites + whole)
        return bo_fail(
            context, BO_FORMAT,
            "%s: expected two tensors for each of the %zu adapted layers and %zu of modules_to_save, found %zu",
            bo_tensors_path(file), sites, whole, bo_tensors_count(file));
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        if (!bo_lora_site_at(weights, i, &site)) continue;
        float *room = bo_alloc_raw(context, numbers(site.b), sizeof *room, "an adapter");
        const bo_status status = room ? take_site(context, bo_weights_backend(weights), &site, file, room) : BO_MEMORY;
        bo_free(room);
        if (status != BO_OK) return status;
    }
    return take_whole(context, weights, file);
}

bo_status bo_adapter_take(bo_context *context, bo_model *model, const bo_tensors *file)
{
    return take_all(context, adapter_weights(model), file);
}

bo_status bo_adapter_read(bo_context *context, bo_model *model, const char *path)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    const bo_status status = bo_adapter_take(context, model, file);
    bo_tensors_close(file);
    return status;
}

/* Warns if α is not the one that the tensors were written with. The other members of adapter_config.json are checked
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

static bo_status take_metadata(bo_context *context, const bo_tensors *file, bo_adapter_config *config)
{
    const char *init = bo_tensors_meta(file, "bochner.init"), *base = bo_tensors_meta(file, "bochner.base");
    if (init && !bo_lora_init_parse(init, &config->init))
        return bo_fail(context, BO_FORMAT, "%s: 'bochner.init': unknown initialization '%.40s'", bo_tensors_path(file),
                       init);
    config->known = base != NULL;
    config->digest = base ? strtoull(base, NULL, 16) : 0;
    compare_alpha(context, file, config);
    if (config->init == BO_LORA_INIT_ZERO) return BO_OK;
    if (config->rank % 2)
        return bo_fail(context, BO_FORMAT, "%s: with initialization %s, expected an even rank, found %zu",
                       bo_tensors_path(file), init, config->rank);
    config->rank /= 2;
    config->alpha /= 2;
    return BO_OK;
}

/* Reads the metadata of the file. rank and α of the configuration become those of training. */
static bo_status read_metadata(bo_context *context, const char *path, bo_adapter_config *config)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    const bo_status status = take_metadata(context, file, config);
    bo_tensors_close(file);
    return status;
}

/* ---- original weights of a merged model -------------------------------------------------------------------------- */

/* Collects the weights that have adapters, and the original weights of the layers that are trained in full. */
static bo_status fill_base(bo_context *context, const bo_adapter *adapter, bo_weights *weights, package *p)
{
    const float *whole = adapter->whole;
    float *at = p->host;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_lora_site site;
        const bo_weight *weight = bo_weights_at(weights, i);
        const size_t count = numbers(weight);
        if (bo_lora_site_at(weights, i, &site)) {
            BO_TRY(bo_weights_backend(weights)->read(context, at, weight->data, count * sizeof *at));
        } else if (bo_lora_is_whole(weights, weight)) {
            memcpy(at, whole, count * sizeof *at);
            whole += count;
        } else {
            continue;
        }
        p->tensors[p->count++] = tensor_of(weight->name, weight, at);
        at += count;
    }
    return BO_OK;
}

bo_status bo_adapter_write_base(bo_context *context, const bo_model *model, bo_output *output)
{
    bo_weights *weights = adapter_weights(model);
    size_t floats = bo_adapter_whole_numbers(weights);
    bo_lora_site site;
    for (size_t i = 0; i < bo_weights_count(weights); i++)
        if (bo_lora_site_at(weights, i, &site)) floats += numbers(site.weight);
    package p = {0};
    p.tensors =
        bo_alloc(context, count_sites(weights) + count_whole(weights), sizeof *p.tensors, "weights of the base");
    p.host = bo_alloc_raw(context, floats, sizeof *p.host, "weights of the base");
    bo_status status = p.tensors && p.host ? fill_base(context, model->adapter, weights, &p) : BO_MEMORY;
    if (status == BO_OK) status = bo_tensors_write_output(context, output, p.tensors, p.count, NULL, 0);
    free_package(&p);
    return status;
}

static bo_status take_base(bo_context *context, bo_model *model, const bo_tensors *file)
{
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        const char *name = bo_tensors_at(file, i)->name;
        const bo_weight *weight = bo_weights_find(model->weights, name);
        const bo_file_tensor *tensor;
        if (!weight)
            return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' is not part of the model", bo_tensors_path(file),
                           name);
        BO_TRY(bo_tensors_require(context, file, name, BO_F32, weight->rank, weight->shape, &tensor));
        BO_TRY(bo_weights_backend(model->weights)->write(context, weight->data, tensor->data, tensor->bytes));
    }
    return BO_OK;
}

static bo_status read_base(bo_context *context, bo_model *model, const char *path)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    const bo_status status = take_base(context, model, file);
    bo_tensors_close(file);
    return status;
}

/* ====================================================================================================================
 * Folders of adapters: loading an adapter with the base that it names, and extracting it from a merged model. */

static bo_status no_base(bo_context *context, const char *folder, const char *base)
{
    if (!base) return bo_fail(context, BO_FORMAT, "%s: adapter_config.json does not name a base model", folder);
    return bo_fail(
        context, BO_IO,
        "%s: its base %s is missing or is not a model; set base_model_name_or_path in adapter_config.json to its folder",
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
                   "%s: the weights of its base %s have changed: expected digest %016llx, found %016llx", folder,
                   config->base, (unsigned long long)config->digest, (unsigned long long)digest);
}

/* Adds the adapters. An error that would be the caller's mistake in a descriptor is reported as an error in the
 * file. */
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
    BO_TRY(read_config(context, path, &config));
    bo_status status = read_metadata(context, tensors, &config);
    const bool there = config.base && bo_model_is_whole(context, config.base);
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
    if (out) *out = NULL;
    BO_REQUIRE(context, folder, out);
    if (!*folder) return bo_fail(context, BO_INVALID, "model: no folder is given");
    char *config = bo_model_path(context, folder, "adapter_config.json");
    char *tensors = bo_model_path(context, folder, "adapter_model.safetensors");
    const bo_status status = config && tensors ? load(context, folder, config, tensors, out) : BO_MEMORY;
    bo_free(config);
    bo_free(tensors);
    return status;
}

bo_status bo_model_load_unmerged(bo_context *context, const char *folder, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, folder, out);
    bo_model *model;
    BO_TRY(bo_model_load(context, folder, &model));
    char *path = bo_model_path(context, folder, "adapter/base.safetensors");
    bo_status status = path ? BO_OK : BO_MEMORY;
    if (path && access(path, F_OK) != 0)
        status = bo_fail(context, BO_INVALID, "%s: not a merged model: adapter/base.safetensors is missing", folder);
    if (status == BO_OK) status = read_base(context, model, path);
    bo_free(path);
    if (status != BO_OK) {
        bo_model_destroy(model);
        return status;
    }
    *out = model;
    return BO_OK;
}
