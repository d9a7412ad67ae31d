/* config.json: the model with Hugging Face member names, with attention in a separate object. Models that are
 * one of the families of families.h are written as such. */
#include "../text/facts.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../nn/enums.h"
#include "enums.h"
#include "../io/input.h"
#include "config.h"
#include "families.h"
#include "internal.h"

#define COUNT(fields) (sizeof fields / sizeof *fields)

enum { FORMAT = 4, DEPTH = 16 };

/* ---- fields ------------------------------------------------------------------------------------------------------ */

BO_FIELD_NAMES(bo_parametrization, parametrization)
BO_FIELD_NAMES(bo_storage, storage)

#define MODEL(key, sort, member) BO_FIELD_PLAIN(bo_model_desc, key, sort, member)

static const bo_field model_fields[] = {
    BO_FIELD_NEEDED(bo_model_desc, "vocab_size", SIZE, vocab),
    BO_FIELD_NEEDED(bo_model_desc, "hidden_size", SIZE, width),
    BO_FIELD_NEEDED(bo_model_desc, "num_hidden_layers", SIZE, layers),
    BO_FIELD_NEEDED(bo_model_desc, "max_position_embeddings", SIZE, context),
    MODEL("tie_word_embeddings", NOT, untied),
    MODEL("dropout", REAL, dropout),
    MODEL("seed", SEED, seed),
};
enum { NEUTRAL = 2 }; /* the last ones, which only matter for initial values and training */

/* Written only if they differ from default_options. */
static const bo_field option_fields[] = {
    MODEL("head_bias", BOOL, head_bias),
    MODEL("embedding_scale", REAL, embedding_scale),
    MODEL("logit_scale", REAL, logit_scale),
    BO_FIELD_ENUM(bo_model_desc, "parametrization", parametrization, parametrization),
    MODEL("base_width", SIZE, base_width),
    BO_FIELD_ENUM(bo_model_desc, "storage", storage, storage),
};
static const bo_model_desc default_options = {.embedding_scale = 1, .logit_scale = 1};

/* ---- comparison -------------------------------------------------------------------------------------------------- */

bool bo_config_same(const bo_model_desc *a, const bo_model_desc *b)
{
    for (size_t i = 0; i < COUNT(model_fields) - NEUTRAL; i++)
        if (!bo_field_same(&model_fields[i], a, b)) return false;
    for (size_t i = 0; i < COUNT(option_fields); i++)
        if (!bo_field_same(&option_fields[i], a, b)) return false;
    for (size_t i = 0; i < a->layers; i++)
        if (!bo_config_same_block(bo_model_block(a, i), bo_model_block(b, i))) return false;
    return true;
}

static bo_status refuse_pair(bo_context *context, const char *where, const bo_field *field, const void *a,
                             const void *b)
{
    bo_json_text x = {.context = context}, y = {.context = context};
    bo_fields_write(&x, field, 1, a, "");
    bo_fields_write(&y, field, 1, b, "");
    const bo_status status = x.failed || y.failed ? BO_MEMORY
                                                  : bo_fail(context, BO_INVALID, "%s%.80s and %.80s", where,
                                                            x.bytes + 1, y.bytes + 1); /* after the newline */
    bo_free(x.bytes);
    bo_free(y.bytes);
    return status;
}

/* Some families scale embeddings by √width. */
static bool same_scale(const bo_model_desc *a, const bo_model_desc *b)
{
    const double x = a->embedding_scale / sqrt((double)a->width), y = b->embedding_scale / sqrt((double)b->width);
    return a->embedding_scale == b->embedding_scale || fabs(x - y) <= 1e-12 * fabs(x);
}

bo_status bo_config_compare(bo_context *context, const bo_model_desc *a, const bo_model_desc *b)
{
    static const char *const ignored[] = {"vocab_size", "hidden_size", "num_hidden_layers", "seed", NULL};
    const char *const scaled[] = {same_scale(a, b) ? "embedding_scale" : NULL, NULL};
    const void *x = a, *y = b;
    const bo_field *found = bo_fields_differ(model_fields, COUNT(model_fields), ignored, &x, &y);
    if (!found) found = bo_fields_differ(option_fields, COUNT(option_fields), scaled, &x, &y);
    if (found) return refuse_pair(context, "", found, x, y);
    for (size_t i = 0; i < bo_max(a->layers, b->layers); i++) {
        char where[32];
        snprintf(where, sizeof where, "layer %zu: ", i);
        found = bo_config_block_differs(bo_model_block(a, i), bo_model_block(b, i), &x, &y);
        if (found) return refuse_pair(context, where, found, x, y);
    }
    return BO_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_options(bo_json_text *text, const bo_model_desc *desc)
{
    for (size_t i = 0; i < COUNT(option_fields); i++) {
        if (bo_field_same(&option_fields[i], desc, &default_options)) continue;
        bo_json_raw(text, ",");
        bo_fields_write(text, &option_fields[i], 1, desc, "  ");
    }
}

static void write_fingerprint(bo_json_text *text, const bo_model *model)
{
    char number[32];
    bo_json_raw(text, "\"tokenizer_fingerprint\": ");
    if (!model->tokenizer) {
        bo_json_raw(text, "null");
        return;
    }
    snprintf(number, sizeof number, "%016llx", (unsigned long long)bo_tokenizer_fingerprint(model->tokenizer));
    bo_json_string(text, number);
}

static void write_native(bo_json_text *text, const bo_model *model)
{
    bo_json_raw(text, "\n  \"architectures\": [");
    bo_json_string(text, bo_config_architecture(model->desc.task));
    bo_json_raw(text, "],\n  \"model_type\": \"bochner\",\n  \"bochner_format\": ");
    bo_json_whole(text, FORMAT);
    bo_json_raw(text, ",\n  \"bochner_version\": ");
    bo_json_string(text, bo_version());
    bo_json_raw(text, ",\n  \"dtype\": \"float32\",\n  ");
    write_fingerprint(text, model);
    bo_json_raw(text, ",");
    bo_fields_write(text, model_fields, COUNT(model_fields), &model->desc, "  ");
    write_options(text, &model->desc);
    bo_config_task_write(text, &model->desc);
    bo_config_blocks_write(text, &model->desc);
}

/* Fields of a model of another family that do not change its outputs. They are the member "bochner", which other
 * programs ignore. */
static const bo_field extra_fields[] = {
    MODEL("dropout", REAL, dropout),
    MODEL("seed", SEED, seed),
    MODEL("sigma", REAL, block.sigma),
    MODEL("gate_first", REAL, block.gate_first),
    MODEL("gate_last", REAL, block.gate_last),
    MODEL("capacity", SIZE, block.attention.capacity),
    MODEL("chunk", SIZE, block.attention.chunk),
};

static void write_family(bo_json_text *text, const bo_model *model, bo_family family)
{
    bo_family_write(text, family, &model->desc);
    bo_json_raw(text, ",\n  \"dtype\": ");
    bo_json_string(text, bo_storage_name(bo_model_storage(model)));
    bo_json_raw(text, ",\n  \"bochner\": {\n    \"version\": ");
    bo_json_string(text, bo_version());
    bo_json_raw(text, ",\n    ");
    write_fingerprint(text, model);
    bo_json_raw(text, ",");
    bo_model_desc extra = model->desc; /* only blocks that see all keys have a capacity */
    for (size_t i = extra.layers; i-- > 0;)
        if (!bo_model_block(&model->desc, i)->attention.window) extra.block = *bo_model_block(&model->desc, i);
    bo_fields_write(text, extra_fields, COUNT(extra_fields), &extra, "    ");
    bo_json_raw(text, "\n  }");
}

bo_status bo_config_write(bo_context *context, const bo_model *model, char **json)
{
    bo_json_text text = {.context = context};
    bo_family family;
    if (model->network) {
        const bo_status status = bo_network_config_write(context, model->network, &text);
        *json = text.bytes;
        if (status != BO_OK) bo_free(text.bytes), *json = NULL;
        return status;
    }
    BO_TRY(bo_family_of(context, model, &family));
    bo_json_raw(&text, "{");
    if (family == BO_FAMILY_BOCHNER)
        write_native(&text, model);
    else
        write_family(&text, model, family);
    bo_specials_write_members(&text, model);
    bo_json_raw(&text, "\n}\n");
    *json = text.bytes;
    return text.failed ? BO_MEMORY : BO_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void read_fingerprint(const bo_json *json, bo_config *out)
{
    const bo_json *tokenizer = bo_json_member(json, "tokenizer_fingerprint");
    const char *fingerprint = bo_json_text_or_null(tokenizer);
    out->no_tokenizer = bo_json_is(tokenizer, BO_JSON_NULL);
    out->knows_tokenizer = fingerprint != NULL;
    out->tokenizer_fingerprint = fingerprint ? strtoull(fingerprint, NULL, 16) : 0;
}

static bo_status read_format(bo_context *context, const char *where, const bo_json *json, size_t *out)
{
    if (!bo_json_size(bo_json_member(json, "bochner_format"), out) || *out < 1)
        return bo_fail(context, BO_FORMAT, "%s: \"bochner_format\" should be a whole number", where);
    if (*out <= FORMAT) return BO_OK;
    return bo_fail(context, BO_VERSION, "%s: the model has format %zu, but Bochner %s reads formats up to %d", where,
                   *out, bo_version(), FORMAT);
}

static bo_status read_native(bo_context *context, const char *where, const bo_json *json, bo_config *out)
{
    size_t format;
    BO_TRY(read_format(context, where, json, &format));
    BO_TRY(bo_fields_read(context, where, model_fields, COUNT(model_fields), json, &out->desc));
    BO_TRY(bo_fields_read(context, where, option_fields, COUNT(option_fields), json, &out->desc));
    BO_TRY(bo_config_task_read(context, where, json, false, &out->desc));
    BO_TRY(format == FORMAT ? bo_config_blocks_read(context, where, json, &out->desc)
                            : bo_config_former_read(context, where, json, format, &out->desc));
    read_fingerprint(json, out);
    return BO_OK;
}

/* The members of `block` apply to all blocks. Only attention to all keys has a capacity. */
static bo_status read_extra(bo_context *context, const char *where, const bo_json *json, bo_model_desc *out)
{
    const bo_block_list list = bo_blocks_of(out, BO_MODEL_PART_LAYERS);
    BO_TRY(bo_fields_read(context, where, extra_fields, COUNT(extra_fields), json, out));
    for (size_t i = 0; i < list.count && list.count > 1; i++) {
        bo_block *b = &list.blocks[i];
        b->sigma = out->block.sigma;
        b->gate_first = out->block.gate_first;
        b->gate_last = out->block.gate_last;
        b->attention.chunk = out->block.attention.chunk;
        if (!b->attention.window) b->attention.capacity = out->block.attention.capacity;
    }
    return BO_OK;
}

static bo_status read_family(bo_context *context, const char *where, const bo_json *json, bo_config *out)
{
    char place[300];
    const bo_json *extra = bo_json_member(json, "bochner");
    BO_TRY(bo_family_read(context, where, out->family, json, &out->desc));
    if (!extra) return BO_OK;
    snprintf(place, sizeof place, "%.250s: \"bochner\"", where);
    BO_TRY(read_extra(context, place, extra, &out->desc));
    read_fingerprint(extra, out);
    return BO_OK;
}

static bo_status read_any(bo_context *context, const char *where, const bo_json *json, bo_config *out)
{
    const char *type = bo_json_text_or_null(bo_json_member(json, "model_type"));
    if (!type)
        return bo_fail(context, BO_FORMAT, "%s: not the configuration of a model: \"model_type\" is missing", where);
    if (strcmp(type, "bochner") == 0) return read_native(context, where, json, out);
    out->family = bo_family_find(type);
    if (out->family != BO_FAMILY_BOCHNER) return read_family(context, where, json, out);
    char names[256];
    bo_family_list(names, sizeof names);
    return bo_fail(context, BO_UNSUPPORTED, "%s: \"model_type\" should be bochner or one of %s, found %.60s", where,
                   names, type);
}

void bo_config_free(bo_config *config)
{
    bo_model_desc_release(&config->desc);
}

bo_status bo_config_read(bo_context *context, const char *where, const char *json, size_t length, bo_config *out)
{
    bo_json *root;
    *out = (bo_config){0};
    if (length > bo_limits_config.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_config.bytes);
    BO_TRY(bo_json_parse(context, where, json, length, DEPTH, &root));
    bo_status status =
        bo_json_has_nul(json, length)
            ? bo_fail(context, BO_FORMAT, "%s: contains \\u0000, which is not allowed in names and labels", where)
            : read_any(context, where, root, out);
    bo_json_delete(root);
    if (status != BO_OK) bo_config_free(out);
    return status;
}

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

/* Members of config.json that a description may have, but that do not describe the model. */
static const char *const other_members[] = {
    "about", "architectures", "block", "blocks",     "bochner_format", "bochner_version",      "bos_token_id",
    "dtype", "eos_token_id",  "input", "model_type", "pad_token_id",   "tokenizer_fingerprint"};

static bo_status refuse_unknown(bo_context *context, const char *where, const bo_json *json)
{
    /* names in descriptors, and the names in the file */
    static const bo_known_name confused[] = {{"width", "hidden_size", true},
                                             {"layers", "num_hidden_layers", true},
                                             {"context", "max_position_embeddings", true},
                                             {"vocab", "vocab_size", true},
                                             {"heads", "block", true}};
    bo_known known = {.count = COUNT(confused)};
    memcpy(known.at, confused, sizeof confused);
    bo_known_add_fields(&known, model_fields, COUNT(model_fields));
    bo_known_add_fields(&known, option_fields, COUNT(option_fields));
    bo_config_task_known(&known);
    for (size_t i = 0; i < COUNT(other_members); i++) bo_known_add(&known, other_members[i]);
    return bo_known_check(context, where, json, &known);
}

/* Members that the task does not have would have no effect. */
static bo_status check_task(bo_context *context, const char *where, const bo_json *json, bo_model_task task)
{
    if (task == BO_MODEL_TASK_PREDICT)
        return bo_fail(context, BO_FORMAT, "%s: a model of the task predict has \"layers\" in place of \"blocks\"",
                       where);
    for (const bo_json *item = json->child; item; item = item->next) {
        const char *tasks = bo_config_task_other(item->key, task);
        if (!tasks) continue;
        return bo_fail(context, BO_FORMAT, "%s: \"%.60s\" is for the task %s, found %s", where, item->key, tasks,
                       bo_model_task_name(task));
    }
    return BO_OK;
}

/* A config.json describes its model if it is of Bochner, and not of an earlier format. */
static bo_status check_origin(bo_context *context, const char *where, const bo_json *json)
{
    const bo_json *type = bo_json_member(json, "model_type");
    const bo_json *version = bo_json_member(json, "bochner_format");
    const char *name = bo_json_text_or_null(type);
    size_t format = FORMAT;
    if (!bo_json_member(json, "blocks") &&
        (bo_json_member(json, "layers") != NULL || bo_json_member(json, "network") != NULL))
        return bo_fail(context, BO_FORMAT,
                       "%s: describes a network, a list of layers; expected \"blocks\" (train --model)", where);
    if (type && (!name || strcmp(name, "bochner") != 0))
        return bo_fail(
            context, BO_FORMAT,
            "%s: expected a description with the type bochner, found the configuration of a model of the type %.60s",
            where, name ? name : "without a name");
    if (version && !bo_json_size(version, &format))
        return bo_fail(context, BO_FORMAT, "%s: \"bochner_format\" should be a whole number", where);
    if (format == FORMAT) return BO_OK;
    return bo_fail(context, BO_VERSION, "%s: has format %zu, but Bochner %s reads descriptions of format %d", where,
                   format, bo_version(), FORMAT);
}

static bo_status check_input(bo_context *context, const char *where, const bo_json *json)
{
    const bo_json *input = bo_json_member(json, "input");
    const char *kind = bo_json_text_or_null(bo_json_member(input, "kind"));
    if (!input || (kind && strcmp(kind, "text") == 0 && bo_json_count(input) == 1)) return BO_OK;
    if (kind && strcmp(kind, "text") == 0)
        return bo_fail(context, BO_FORMAT, "%s: \"input\" of the kind text has no other members", where);
    return bo_fail(context, BO_FORMAT, "%s: a description with blocks reads text: \"input\" should have the kind text",
                   where);
}

/* Every member but the blocks may be missing. */
static bo_status read_described(bo_context *context, const char *where, const bo_json *json, bo_model_desc *out)
{
    bo_field fields[COUNT(model_fields)];
    memcpy(fields, model_fields, sizeof fields);
    for (size_t i = 0; i < COUNT(fields); i++) fields[i].required = false;
    if (!bo_json_is(json, BO_JSON_OBJECT)) return bo_fail(context, BO_FORMAT, "%s: should be a JSON object", where);
    BO_TRY(check_origin(context, where, json));
    BO_TRY(refuse_unknown(context, where, json));
    BO_TRY(check_input(context, where, json));
    BO_TRY(bo_fields_read(context, where, fields, COUNT(fields), json, out));
    BO_TRY(bo_fields_read(context, where, option_fields, COUNT(option_fields), json, out));
    BO_TRY(bo_config_task_read(context, where, json, true, out));
    BO_TRY(check_task(context, where, json, out->task));
    return bo_config_blocks_read(context, where, json, out);
}

static bo_status parse_description(bo_context *context, const char *text, const char *where, bo_json **out)
{
    const size_t length = strlen(text);
    if (length > bo_limits_config.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_config.bytes);
    return bo_json_parse(context, where, text, length, DEPTH, out);
}

bo_status bo_description_reads_text(bo_context *context, const char *text, const char *where, bool *out)
{
    bo_json *json;
    BO_TRY(parse_description(context, text, where ? where : "model", &json));
    *out = bo_json_member(json, "blocks") != NULL;
    bo_json_delete(json);
    return BO_OK;
}

bo_status bo_description_read(bo_context *context, const char *text, const char *where, bo_model_desc *out)
{
    if (out) *out = (bo_model_desc){0};
    BO_REQUIRE(context, text, out);
    if (!where) where = "model";
    bo_json *json;
    BO_TRY(parse_description(context, text, where, &json));
    const bo_status status = read_described(context, where, json, out);
    bo_json_delete(json);
    if (status != BO_OK) bo_model_desc_release(out);
    return status;
}
