/* tokenizer.json as Hugging Face's `tokenizers` writes it: the file, its parts, and what the rest follows from. */
#include "load.h"
#include "mapping.h"
#include "../base/rng.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_DEPTH = 32, MOST_BYTES = 1 << 28, PATH_BYTES = 4096 };

/* ---- what the parts share ----------------------------------------------------------------------------------------- */

bool bo_load_flag(const cJSON *object, const char *name, bool otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

const char *bo_load_text(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

const char *bo_load_type(const cJSON *part)
{
    const char *type = bo_load_text(part, "type");
    return type ? type : "";
}

bo_status bo_load_refuse(const bo_loading *loading, const char *part, const cJSON *item)
{
    return bo_fail(loading->context, BO_UNSUPPORTED, "%s: %s of type \"%.80s\" is not supported", loading->where, part,
                   bo_load_type(item));
}

bo_status bo_load_pattern(const bo_loading *loading, const cJSON *item, bo_pattern *out)
{
    const char *string = bo_load_text(item, "String"), *expression = bo_load_text(item, "Regex");
    if (cJSON_IsString(item)) string = item->valuestring;
    if (expression) return bo_pattern_compile(loading->context, loading->where, expression, out);
    if (string) return bo_pattern_string(loading->context, string, out);
    return bo_fail(loading->context, BO_FORMAT, "%s: a pattern is neither a String nor a Regex", loading->where);
}

bo_status bo_load_sequence(bo_loading *loading, const cJSON *part, const char *name, bo_load_fn load)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(part, name), *item;
    if (!cJSON_IsArray(list))
        return bo_fail(loading->context, BO_FORMAT, "%s: a Sequence has no list \"%s\"", loading->where, name);
    cJSON_ArrayForEach(item, list) BO_TRY(load(loading, item));
    return BO_OK;
}

/* ---- what follows ------------------------------------------------------------------------------------------------- */

/* FNV-1a over the normalizer and the pre-tokenizer, which decide about ids as much as the vocabulary. */
static bo_status hash_part(bo_loading *loading, const cJSON *part)
{
    if (!part) return BO_OK;
    char *text = cJSON_PrintUnformatted(part);
    if (!text) return bo_fail(loading->context, BO_MEMORY, "%s: out of memory", loading->where);
    for (const char *p = text; *p; ++p) loading->hash = (loading->hash ^ (unsigned char)*p) * 1099511628211u;
    cJSON_free(text);
    return BO_OK;
}

/* Two hundred and fifty-six letters in the order of their bytes and nothing else: our own bytes, as they are saved. */
static bool is_bytes(const bo_tokenizer *tokenizer)
{
    bool plain = tokenizer->vocab == 256 && tokenizer->byte_level && tokenizer->added_count == 0 &&
                 tokenizer->normalizer_count == 0 && tokenizer->splitter_count == 1 &&
                 tokenizer->splitters[0].prefixing == BO_PREFIX_NEVER && !tokenizer->splitters[0].pattern.text;
    for (int32_t b = 0; plain && b < 256; ++b) plain = tokenizer->byte_ids[b] == b;
    for (size_t i = 0; plain && i <= tokenizer->merges.mask; ++i) plain = tokenizer->merges.slots[i].pair == BO_NO_PAIR;
    return plain;
}

static void find_end(bo_tokenizer *tokenizer)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]", "<|eot_id|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names && tokenizer->end < 0; ++i)
        tokenizer->end = bo_tokenizer_find(tokenizer, names[i]);
}

static bo_status load_parts(bo_loading *loading, const cJSON *root)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const cJSON *normalizer = cJSON_GetObjectItemCaseSensitive(root, "normalizer");
    const cJSON *splitter = cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer");
    bo_tokenizer *tokenizer = loading->tokenizer;
    if (!cJSON_IsObject(model))
        return bo_fail(loading->context, BO_FORMAT, "%s: has no \"model\"; is it a tokenizer.json?", loading->where);
    BO_TRY(bo_load_normalizer(loading, normalizer));
    BO_TRY(bo_load_splitter(loading, splitter));
    BO_TRY(hash_part(loading, normalizer));
    BO_TRY(hash_part(loading, splitter));
    BO_TRY(bo_load_model(loading, model, cJSON_GetObjectItemCaseSensitive(root, "added_tokens")));
    BO_TRY(bo_load_decoder(loading, cJSON_GetObjectItemCaseSensitive(root, "decoder")));
    BO_TRY(bo_load_frame(loading, cJSON_GetObjectItemCaseSensitive(root, "post_processor")));
    tokenizer->bytes = is_bytes(tokenizer);
    tokenizer->fingerprint = tokenizer->bytes ? bo_rng_stream("text.bytes", 0) : loading->hash;
    if (!tokenizer->bytes) find_end(tokenizer);
    return BO_OK;
}

bo_status bo_tokenizer_parse(bo_context *context, const char *where, const char *text, size_t length,
                             bo_tokenizer **out)
{
    *out = NULL;
    cJSON *root;
    if (length > MOST_BYTES)
        return bo_fail(context, BO_INVALID, "%s: %zu bytes are more than any tokenizer.json has", where, length);
    BO_TRY(bo_json_parse(context, where, text, length, MOST_DEPTH, &root));
    bo_tokenizer *tokenizer = bo_alloc(context, 1, sizeof *tokenizer, "a tokenizer");
    bo_loading loading = {context, where, tokenizer, bo_rng_stream("text.tokenizer", 0)};
    bo_status status = BO_MEMORY;
    if (tokenizer) {
        tokenizer->end = tokenizer->unknown = -1;
        tokenizer->source = bo_alloc_raw(context, length, 1, "a tokenizer");
        tokenizer->source_bytes = length;
        if (tokenizer->source) {
            memcpy(tokenizer->source, text, length);
            status = load_parts(&loading, root);
        }
    }
    cJSON_Delete(root);
    if (status == BO_OK)
        *out = tokenizer;
    else
        bo_tokenizer_destroy(tokenizer);
    return status;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static bool join_path(char *out, const char *folder, const char *name)
{
    return snprintf(out, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

static bo_status load_file(bo_context *context, const char *path, bo_tokenizer **out)
{
    bo_mapping file;
    BO_TRY(bo_mapping_open(context, path, &file));
    bo_status status = bo_tokenizer_parse(context, path, file.data, file.size, out);
    bo_mapping_close(&file);
    return status;
}

static bo_status read_json(bo_context *context, const char *path, cJSON **out)
{
    bo_mapping file;
    *out = NULL;
    BO_TRY(bo_mapping_open(context, path, &file));
    bo_status status = bo_json_parse(context, path, file.data, file.size, MOST_DEPTH, out);
    bo_mapping_close(&file);
    return status;
}

/* The folder's tokenizer_config.json may name the token that ends a text. */
static bo_status read_end(bo_context *context, const char *folder, bo_tokenizer *tokenizer)
{
    char path[PATH_BYTES];
    cJSON *config;
    if (tokenizer->bytes || !join_path(path, folder, "tokenizer_config.json") || access(path, F_OK) != 0) return BO_OK;
    BO_TRY(read_json(context, path, &config));
    const cJSON *named = cJSON_GetObjectItemCaseSensitive(config, "eos_token");
    const char *text = cJSON_IsString(named) ? named->valuestring : bo_load_text(named, "content");
    int32_t id = text ? bo_tokenizer_find(tokenizer, text) : -1;
    if (id >= 0) tokenizer->end = id;
    cJSON_Delete(config);
    return BO_OK;
}

/* A model of bytes needs no tokenizer.json. */
static bo_status load_bytes(bo_context *context, const char *folder, bo_tokenizer **out)
{
    char path[PATH_BYTES];
    cJSON *config;
    size_t vocab = 0;
    if (!join_path(path, folder, "config.json") || access(path, F_OK) != 0)
        return bo_fail(context, BO_IO, "%s: the folder has neither a tokenizer.json nor a config.json", folder);
    BO_TRY(read_json(context, path, &config));
    bo_json_size(cJSON_GetObjectItemCaseSensitive(config, "vocab_size"), &vocab);
    cJSON_Delete(config);
    if (vocab != 256)
        return bo_fail(context, BO_IO,
                       "%s: the folder has no tokenizer.json, and a vocabulary of %zu is not one of bytes", folder,
                       vocab);
    return bo_tokenizer_bytes(context, out);
}

bo_status bo_tokenizer_load(bo_context *context, const char *path, bo_tokenizer **out)
{
    char inside[PATH_BYTES];
    struct stat about;
    if (!out) return bo_fail(context, BO_INVALID, "a tokenizer: out is NULL");
    *out = NULL;
    if (!path || !*path) return bo_fail(context, BO_INVALID, "no tokenizer was named");
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) return load_file(context, path, out);
    if (!join_path(inside, path, "tokenizer.json")) return bo_fail(context, BO_INVALID, "%s: is too long a path", path);
    if (access(inside, F_OK) != 0) return load_bytes(context, path, out);
    BO_TRY(load_file(context, inside, out));
    bo_status status = read_end(context, path, *out);
    if (status != BO_OK) {
        bo_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}
