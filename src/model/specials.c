/* Special tokens of a model, and the text files that name them: read, applied and written. */
#include "../text/facts.h"
#include "specials.h"

#include <string.h>
#include "../io/input.h"
#include "../io/tensors.h"
#include "../text/tokenizer.h"
#include "family_table.h"
#include "model.h"

enum { DEPTH = 32 };

static const struct {
    const char *name, *key;
} files[BO_COMPANION_COUNT] = {
    {"generation_config.json", BO_TENSORS_COMPANION("generation_config.json")},
    {"tokenizer_config.json", BO_TENSORS_COMPANION("tokenizer_config.json")},
    {"special_tokens_map.json", BO_TENSORS_COMPANION("special_tokens_map.json")},
    {"chat_template.jinja", BO_TENSORS_COMPANION("chat_template.jinja")},
};

const char *bo_companion_name(bo_companion which)
{
    return files[which].name;
}

const char *bo_companion_key(bo_companion which)
{
    return files[which].key;
}

bo_specials bo_specials_none(void)
{
    return (bo_specials){.config = {-1, -1, {0}, 0}, .generation = {-1, -1, {0}, 0}, .begin = -1};
}

void bo_specials_free(bo_specials *specials)
{
    for (int i = 0; i < BO_COMPANION_COUNT; i++) bo_free(specials->texts[i]);
    *specials = bo_specials_none();
}

/* ====================================================================================================================
 * Reading. */

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* An id; null and -1, which early configurations of Llama contain, mean none. */
static bool parse_id(const bo_json *item, int32_t *out)
{
    size_t id;
    *out = -1;
    if (bo_json_is(item, BO_JSON_NULL) || (bo_json_is(item, BO_JSON_NUMBER) && item->number == -1)) return true;
    if (!bo_json_size(item, &id) || id > INT32_MAX) return false;
    *out = (int32_t)id;
    return true;
}

static bo_status read_id(bo_context *context, const char *where, const bo_json *json, const char *name, int32_t *out)
{
    const bo_json *item = bo_json_member(json, name);
    if (!item || parse_id(item, out)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: \"%s\" should be a token id or null", where, name);
}

/* One id or a list of ids. */
static bo_status read_ends(bo_context *context, const char *where, const bo_json *json, bo_special_ids *out)
{
    const bo_json *item = bo_json_member(json, "eos_token_id"),
                  *first = bo_json_is(item, BO_JSON_ARRAY) ? item->child : item;
    if (!item) return BO_OK;
    out->end_count = 0;
    for (const bo_json *at = first; at; at = bo_json_is(item, BO_JSON_ARRAY) ? at->next : NULL) {
        int32_t id;
        if (!parse_id(at, &id))
            return bo_fail(context, BO_FORMAT, "%s: \"eos_token_id\" should be a token id, a list of ids, or null",
                           where);
        if (id < 0) continue;
        if (out->end_count == BO_MAX_ENDS)
            return bo_fail(context, BO_FORMAT, "%s: \"eos_token_id\" has more than %d ids", where, BO_MAX_ENDS);
        out->ends[out->end_count++] = id;
    }
    return BO_OK;
}

static bo_status read_ids(bo_context *context, const char *where, const bo_json *json, bo_special_ids *out)
{
    BO_TRY(read_id(context, where, json, "bos_token_id", &out->begin));
    BO_TRY(read_id(context, where, json, "pad_token_id", &out->pad));
    return read_ends(context, where, json, out);
}

/* The ids of transformers for configurations that lack these members. */
static bo_special_ids default_ids(const char *type)
{
    const bo_family_ids *ids = &bo_family_row_of(type ? bo_family_find(type) : BO_FAMILY_BOCHNER)->ids;
    if (!ids->known) return (bo_special_ids){-1, -1, {0}, 0};
    return (bo_special_ids){ids->begin, ids->pad, {ids->end}, 1};
}

bo_status bo_specials_read_config(bo_context *context, const char *where, const char *text, size_t length,
                                  bo_specials *specials)
{
    bo_json *json;
    BO_TRY(bo_json_parse(context, where, text, length, DEPTH, &json));
    specials->config = default_ids(bo_json_text_or_null(bo_json_member(json, "model_type")));
    specials->known = specials->config.end_count || bo_json_member(json, "eos_token_id") != NULL;
    const bo_status status = read_ids(context, where, json, &specials->config);
    bo_json_delete(json);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The text of a token: a string, or an object with its properties. */
static const char *token_text(const bo_json *json, const char *name)
{
    const bo_json *item = bo_json_member(json, name);
    return bo_json_text_or_null(bo_json_is(item, BO_JSON_OBJECT) ? bo_json_member(item, "content") : item);
}

static bo_status check_token(bo_context *context, const char *where, const bo_json *json, const char *name)
{
    const bo_json *item = bo_json_member(json, name);
    if (!item || bo_json_is(item, BO_JSON_NULL) || token_text(json, name)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: \"%s\" should be a text, an object with \"content\", or null", where, name);
}

static bo_status read_object(bo_context *context, const char *where, bo_companion which, const bo_json *json,
                             bo_specials *specials)
{
    if (!bo_json_is(json, BO_JSON_OBJECT)) return bo_fail(context, BO_FORMAT, "%s: expected a JSON object", where);
    if (which == BO_COMPANION_GENERATION) return read_ids(context, where, json, &specials->generation);
    BO_TRY(check_token(context, where, json, "bos_token"));
    return check_token(context, where, json, "eos_token");
}

bo_status bo_specials_read(bo_context *context, const char *where, bo_companion which, const char *text, size_t length,
                           bo_specials *specials)
{
    bo_json *json;
    if (memchr(text, 0, length)) return bo_fail(context, BO_FORMAT, "%s: contains a NUL byte", where);
    if (length > bo_limits_config.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_config.bytes);
    if (which != BO_COMPANION_CHAT) {
        BO_TRY(bo_json_parse(context, where, text, length, DEPTH, &json));
        const bo_status status = read_object(context, where, which, json, specials);
        bo_json_delete(json);
        BO_TRY(status);
    }
    char *copy = bo_strdup(context, text);
    if (!copy) return BO_MEMORY;
    bo_free(specials->texts[which]);
    specials->texts[which] = copy;
    return BO_OK;
}

/* ====================================================================================================================
 * The ids that apply. */

/* Finds a token that tokenizer_config.json names; -1: none. */
static bo_status find_named(bo_context *context, const bo_tokenizer *tokenizer, const char *text, const char *name,
                            int32_t *out)
{
    bo_json *json;
    *out = -1;
    if (!text || !tokenizer) return BO_OK;
    BO_TRY(bo_json_parse(context, files[BO_COMPANION_TOKENIZER].name, text, strlen(text), DEPTH, &json));
    *out = bo_tokenizer_find(tokenizer, token_text(json, name));
    bo_json_delete(json);
    return BO_OK;
}

/* Returns the token that the tokenizer prepends to every text; -1: none. */
static int32_t first_of(const bo_tokenizer *tokenizer)
{
    return tokenizer && tokenizer->frame_before ? tokenizer->frame[0] : -1;
}

static bo_status find_begin(bo_context *context, const bo_tokenizer *tokenizer, const bo_specials *s, int32_t *out)
{
    *out = s->generation.begin >= 0 ? s->generation.begin : s->config.begin;
    if (*out < 0) BO_TRY(find_named(context, tokenizer, s->texts[BO_COMPANION_TOKENIZER], "bos_token", out));
    if (*out < 0) *out = first_of(tokenizer);
    return BO_OK;
}

static bo_status find_end(bo_context *context, const bo_tokenizer *tokenizer, const bo_specials *s, int32_t *out)
{
    BO_TRY(find_named(context, tokenizer, s->texts[BO_COMPANION_TOKENIZER], "eos_token", out));
    if (*out < 0 && tokenizer) *out = bo_tokenizer_end(tokenizer);
    return BO_OK;
}

bo_status bo_specials_resolve(bo_context *context, const bo_tokenizer *tokenizer, size_t vocab, bo_specials *specials)
{
    const bo_special_ids *from = specials->generation.end_count ? &specials->generation : &specials->config;
    int32_t end = -1;
    BO_TRY(find_begin(context, tokenizer, specials, &specials->begin));
    if (specials->begin >= 0 && (size_t)specials->begin >= vocab) specials->begin = -1;
    specials->end_count = 0;
    for (size_t i = 0; i < from->end_count; i++)
        if ((size_t)from->ends[i] < vocab) specials->ends[specials->end_count++] = from->ends[i];
    if (from->end_count) return BO_OK; /* an id outside of the vocabulary never occurs, and no other one replaces it */
    BO_TRY(find_end(context, tokenizer, specials, &end));
    if (end >= 0 && (size_t)end < vocab) specials->ends[specials->end_count++] = end;
    return BO_OK;
}

void bo_specials_replace(bo_model *model, bo_specials *specials)
{
    bo_specials_free(&model->specials);
    model->specials = *specials;
    *specials = bo_specials_none();
    bo_model_refresh(model);
}

bo_status bo_specials_adopt(bo_context *context, bo_model *model, const bo_model *from)
{
    const bo_tokenizer *tokenizer = model->tokenizer, *other = from->tokenizer;
    bo_specials copy = from->specials;
    bo_status status = BO_OK;
    if (!tokenizer != !other || bo_tokenizer_fingerprint(tokenizer) != bo_tokenizer_fingerprint(other)) return BO_OK;
    for (int i = 0; i < BO_COMPANION_COUNT; i++) copy.texts[i] = NULL;
    for (int i = 0; status == BO_OK && i < BO_COMPANION_COUNT; i++)
        if (from->specials.texts[i] && !(copy.texts[i] = bo_strdup(context, from->specials.texts[i])))
            status = BO_MEMORY;
    if (status == BO_OK) status = bo_specials_resolve(context, tokenizer, model->desc.vocab, &copy);
    if (status == BO_OK)
        bo_specials_replace(model, &copy);
    else
        bo_specials_free(&copy);
    return status;
}

/* ---- access ------------------------------------------------------------------------------------------------------ */

const char *bo_model_companion(const bo_model *model, const char *name)
{
    for (int i = 0; model && name && i < BO_COMPANION_COUNT; i++)
        if (strcmp(name, files[i].name) == 0) return model->specials.texts[i];
    return NULL;
}

/* ====================================================================================================================
 * Writing. */

static void write_id(bo_json_text *text, int32_t id)
{
    if (id < 0)
        bo_json_raw(text, "null");
    else
        bo_json_whole(text, (uint64_t)id);
}

static void write_ids(bo_json_text *text, int32_t begin, const int32_t *ends, size_t count, int32_t pad)
{
    bo_json_raw(text, "\n  \"bos_token_id\": ");
    write_id(text, begin);
    bo_json_raw(text, ",\n  \"eos_token_id\": ");
    if (count <= 1) write_id(text, count ? ends[0] : -1);
    for (size_t i = 0; count > 1 && i < count; i++) {
        bo_json_raw(text, i ? ", " : "[");
        write_id(text, ends[i]);
    }
    bo_json_raw(text, count > 1 ? "],\n  \"pad_token_id\": " : ",\n  \"pad_token_id\": ");
    write_id(text, pad);
}

/* A directory keeps the ids of its config.json, also those outside of the vocabulary. */
void bo_specials_write_members(bo_json_text *text, const bo_model *model)
{
    const bo_specials *s = &model->specials;
    bo_json_raw(text, ",");
    if (s->known)
        write_ids(text, s->config.begin, s->config.ends, s->config.end_count, s->config.pad);
    else
        write_ids(text, s->begin, s->ends, s->end_count, -1);
}

/* True for special tokens. Naming another one would change how texts that contain it are encoded. */
static bool is_special(const bo_tokenizer *tokenizer, int32_t id)
{
    for (size_t i = 0; id >= 0 && i < tokenizer->added_count; i++)
        if (tokenizer->added[i].id == id) return tokenizer->added[i].special;
    return false;
}

/* Writes the text of a special token as a member; nothing if the token is not special. */
static void write_token(bo_json_text *text, const char *name, const bo_tokenizer *tokenizer, int32_t id)
{
    size_t length;
    if (!is_special(tokenizer, id)) return;
    const char *spelling = bo_spelling_at(&tokenizer->texts, (size_t)id, &length);
    char *token = bo_alloc(text->context, length + 1, 1, "the text of a token");
    if (!token) {
        text->failed = true;
        return;
    }
    memcpy(token, spelling, length);
    bo_json_raw(text, "  ");
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
    bo_json_string(text, token);
    bo_json_raw(text, ",\n");
    bo_free(token);
}

/* The members that transformers needs to load tokenizer.json with AutoTokenizer. */
static void write_tokenizer(bo_json_text *text, const bo_model *model)
{
    const bo_specials *s = &model->specials;
    const bo_tokenizer *tokenizer = model->tokenizer;
    const bool named = s->end_count && is_special(tokenizer, s->ends[0]);
    bo_json_raw(text, "{\n");
    write_token(text, "bos_token", tokenizer, s->begin);
    write_token(text, "eos_token", tokenizer, named ? s->ends[0] : bo_tokenizer_end(tokenizer));
    write_token(text, "pad_token", tokenizer, s->config.pad);
    bo_json_raw(text, "  \"clean_up_tokenization_spaces\": false,\n  \"model_max_length\": ");
    bo_json_whole(text, model->desc.context);
    bo_json_raw(text, ",\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
}

static void write_generation(bo_json_text *text, const bo_model *model)
{
    bo_json_raw(text, "{\n  \"_from_model_config\": true");
    bo_specials_write_members(text, model);
    bo_json_raw(text, "\n}\n");
}

bool bo_specials_has(const bo_model *model, bo_companion which)
{
    const bo_model_task task = model->desc.task;
    if (model->specials.texts[which]) return true;
    if (which == BO_COMPANION_TOKENIZER) return model->tokenizer != NULL;
    return which == BO_COMPANION_GENERATION && (task == BO_MODEL_TASK_LANGUAGE || task == BO_MODEL_TASK_TRANSLATE);
}

bo_status bo_specials_text(bo_context *context, const bo_model *model, bo_companion which, char **out)
{
    bo_json_text text = {.context = context};
    if (model->specials.texts[which])
        bo_json_raw(&text, model->specials.texts[which]);
    else if (which == BO_COMPANION_TOKENIZER)
        write_tokenizer(&text, model);
    else
        write_generation(&text, model);
    if (text.failed) bo_free(text.bytes);
    *out = text.failed ? NULL : text.bytes;
    return text.failed ? BO_MEMORY : BO_OK;
}

bo_status bo_specials_settle(bo_context *context, bo_model *model)
{
    for (int i = 0; i < BO_COMPANION_COUNT; i++) {
        char *loaded = model->specials.texts[i], *made = NULL;
        model->specials.texts[i] = NULL;
        const bo_status status =
            loaded && bo_specials_has(model, i) ? bo_specials_text(context, model, i, &made) : BO_OK;
        if (made && strcmp(made, loaded) == 0)
            bo_free(loaded);
        else
            model->specials.texts[i] = loaded;
        bo_free(made);
        BO_TRY(status);
    }
    return BO_OK;
}
