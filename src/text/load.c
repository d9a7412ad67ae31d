/* Reads tokenizer.json as Hugging Face's `tokenizers` writes it: the file, its parts, and derived tables. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/trace.h"
#include "../base/rng.h"
#include "decode.h"
#include "load.h"
#include "../io/bytes.h"
#include "../io/foreign.h"
#include "../io/tensors.h"

enum { MAX_DEPTH = 32, PATH_BYTES = 4096 };

/* ---- shared functions -------------------------------------------------------------------------------------------- */

bool bo_load_flag(const bo_json *object, const char *name, bool default_value)
{
    const bo_json *item = bo_json_member(object, name);
    return bo_json_is_bool(item) ? bo_json_is(item, BO_JSON_TRUE) : default_value;
}

const char *bo_load_text(const bo_json *object, const char *name)
{
    const bo_json *item = bo_json_member(object, name);
    return bo_json_is(item, BO_JSON_TEXT) ? item->text : NULL;
}

const char *bo_load_type(const bo_json *part)
{
    const char *type = bo_load_text(part, "type");
    return type ? type : "";
}

enum { NONCHARACTERS = 32, NONCHARACTER_BYTES = 3 }; /* U+FDD0 to U+FDEF */

static void write_noncharacter(int number, char out[NONCHARACTER_BYTES])
{
    memcpy(out, (char[]){(char)0xEF, (char)0xB7, (char)(0x90 + number)}, NONCHARACTER_BYTES);
}

size_t bo_load_length(const bo_loading *loading, const char *text)
{
    const size_t length = strlen(text);
    char mark[NONCHARACTER_BYTES], *to = (char *)text; /* a string of bo_json, which is not const */
    if (loading->nul < 0) return length;
    write_noncharacter(loading->nul, mark);
    for (const char *from = text, *end = text + length; from < end;) {
        const bool nul = (size_t)(end - from) >= sizeof mark && memcmp(from, mark, sizeof mark) == 0;
        *to++ = nul ? (char)0 : *from;
        from += nul ? sizeof mark : 1;
    }
    return (size_t)(to - text);
}

bo_status bo_load_refuse(const bo_loading *loading, const char *part, const bo_json *item)
{
    return bo_fail(loading->context, BO_UNSUPPORTED, "%s: %s of type \"%.80s\" is not supported", loading->where, part,
                   bo_load_type(item));
}

bo_status bo_load_pattern(const bo_loading *loading, const bo_json *item, bo_pattern *out)
{
    const char *string = bo_load_text(item, "String"), *expression = bo_load_text(item, "Regex");
    if (bo_json_is(item, BO_JSON_TEXT)) string = item->text;
    if (expression) return bo_pattern_compile(loading->context, loading->where, expression, out);
    if (string) return bo_pattern_string(loading->context, string, bo_load_length(loading, string), out);
    return bo_fail(loading->context, BO_FORMAT, "%s: a pattern is neither a String nor a Regex", loading->where);
}

bo_status bo_load_sequence(bo_loading *loading, const bo_json *part, const char *name, bo_load_fn load)
{
    const bo_json *list = bo_json_member(part, name), *item;
    if (!bo_json_is(list, BO_JSON_ARRAY))
        return bo_fail(loading->context, BO_FORMAT, "%s: a Sequence has no list \"%s\"", loading->where, name);
    BO_JSON_EACH(item, list) BO_TRY(load(loading, item));
    return BO_OK;
}

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

/* FNV-1a over the normalizer and the pre-tokenizer, which determine ids as much as the vocabulary does. */
static bo_status hash_part(bo_loading *loading, const bo_json *part)
{
    if (!part) return BO_OK;
    char *text = bo_json_print(part);
    if (!text) return bo_fail(loading->context, BO_MEMORY, "%s: out of memory", loading->where);
    for (const char *p = text; *p; ++p) loading->hash = (loading->hash ^ (unsigned char)*p) * 1099511628211u;
    free(text);
    return BO_OK;
}

/* True if the vocabulary consists of the 256 byte-level symbols in the order of their bytes: the saved byte
 * tokenizer. */
static bool is_bytes(const bo_tokenizer *tokenizer)
{
    bool plain = tokenizer->info.vocab == 256 && tokenizer->byte_level && tokenizer->added_count == 0 &&
                 tokenizer->normalizer_count == 0 && tokenizer->splitter_count == 1 &&
                 tokenizer->splitters[0].prefixing == BO_PREFIX_NEVER && tokenizer->splitters[0].cut == BO_CUT_NOT;
    for (int32_t b = 0; plain && b < 256; ++b) plain = tokenizer->byte_ids[b] == b;
    for (size_t i = 0; plain && i <= tokenizer->merges.mask; ++i) plain = tokenizer->merges.slots[i].pair == BO_NO_PAIR;
    return plain;
}

static void find_end(bo_tokenizer *tokenizer)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]", "<|eot_id|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names && tokenizer->info.end < 0; ++i)
        tokenizer->info.end = bo_tokenizer_find(tokenizer, names[i]);
}

/* Truncation and padding are the responsibility of the caller, which knows the length of a batch. */
static void note_ignored(const bo_loading *loading, const bo_json *root)
{
    static const char *const names[] = {"truncation", "padding"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        const bo_json *item = bo_json_member(root, names[i]);
        if (item && !bo_json_is(item, BO_JSON_NULL))
            bo_log(loading->context, BO_LOG_WARNING, "%s: \"%s\" is ignored: texts are encoded whole", loading->where,
                   names[i]);
    }
}

static bo_status load_parts(bo_loading *loading, const bo_json *root)
{
    const bo_json *model = bo_json_member(root, "model");
    const bo_json *normalizer = bo_json_member(root, "normalizer");
    const bo_json *splitter = bo_json_member(root, "pre_tokenizer");
    bo_tokenizer *tokenizer = loading->tokenizer;
    if (!bo_json_is(model, BO_JSON_OBJECT))
        return bo_fail(loading->context, BO_FORMAT, "%s: expected a tokenizer.json with a member \"model\", found none",
                       loading->where);
    note_ignored(loading, root);
    BO_TRY(bo_load_normalizer(loading, normalizer));
    BO_TRY(bo_load_splitter(loading, splitter));
    BO_TRY(hash_part(loading, normalizer));
    BO_TRY(hash_part(loading, splitter));
    BO_TRY(bo_load_model(loading, model, bo_json_member(root, "added_tokens")));
    BO_TRY(bo_load_decoder(loading, bo_json_member(root, "decoder")));
    BO_TRY(bo_make_pieces(loading->context, loading->where, tokenizer));
    BO_TRY(bo_load_frame(loading, bo_json_member(root, "post_processor")));
    tokenizer->info.bytes = is_bytes(tokenizer);
    tokenizer->info.fingerprint = tokenizer->info.bytes ? bo_rng_stream("text.bytes", 0) : loading->hash;
    if (!tokenizer->info.bytes) find_end(tokenizer);
    return BO_OK;
}

/* A noncharacter that the text does not contain, neither literally nor escaped. */
static int unused_noncharacter(const char *text, size_t length)
{
    for (int number = 0; number < NONCHARACTERS; ++number) {
        char mark[NONCHARACTER_BYTES], escaped[2][8];
        write_noncharacter(number, mark);
        snprintf(escaped[0], sizeof escaped[0], "ufd%02x", 0xD0 + number);
        snprintf(escaped[1], sizeof escaped[1], "uFD%02X", 0xD0 + number);
        if (!memmem(text, length, mark, sizeof mark) && !memmem(text, length, escaped[0], 5) &&
            !memmem(text, length, escaped[1], 5))
            return number;
    }
    return 0;
}

/* bo_json ends a string at an escaped NUL, which some vocabularies contain. */
static bo_status parse_with_nul(bo_context *context, const char *where, const char *text, size_t length, int nul,
                                bo_json **out)
{
    char *copy = bo_alloc_raw(context, length, 1, "a tokenizer"), escaped[8];
    if (!copy) return BO_MEMORY;
    memcpy(copy, text, length);
    snprintf(escaped, sizeof escaped, "\\ufd%02x", 0xD0 + nul);
    for (size_t i = 0; i + 6 <= length; ++i) {
        if (copy[i] != '\\') continue;
        if (memcmp(copy + i, "\\u0000", 6) == 0) memcpy(copy + i, escaped, 6);
        ++i; /* skips the escaped character, which may be a backslash */
    }
    const bo_status status = bo_json_parse(context, where, copy, length, MAX_DEPTH, out);
    bo_free(copy);
    return status;
}

bo_status bo_tokenizer_parse(bo_context *context, const char *where, const char *text, size_t length,
                             bo_tokenizer **out)
{
    *out = NULL;
    bo_json *root;
    if (length > bo_limits_tokenizer.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_tokenizer.bytes);
    const int nul = bo_json_has_nul(text, length) ? unused_noncharacter(text, length) : -1;
    BO_TRY(nul >= 0 ? parse_with_nul(context, where, text, length, nul, &root)
                    : bo_json_parse(context, where, text, length, MAX_DEPTH, &root));
    bo_tokenizer *tokenizer = bo_alloc(context, 1, sizeof *tokenizer, "a tokenizer");
    bo_loading loading = {context, where, tokenizer, bo_rng_stream("text.tokenizer", 0), nul};
    bo_status status = BO_MEMORY;
    if (tokenizer) {
        tokenizer->info.end = tokenizer->unknown = -1;
        tokenizer->source = bo_alloc_raw(context, length, 1, "a tokenizer");
        tokenizer->source_bytes = length;
        if (tokenizer->source) {
            memcpy(tokenizer->source, text, length);
            status = load_parts(&loading, root);
        }
    }
    bo_json_delete(root);
    if (status == BO_OK)
        *out = tokenizer;
    else
        bo_tokenizer_destroy(tokenizer);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool join_path(char *out, const char *directory, const char *name)
{
    return snprintf(out, PATH_BYTES, "%s/%s", directory, name) < PATH_BYTES;
}

static bo_status load_file(bo_context *context, const char *path, bo_tokenizer **out)
{
    char *text;
    size_t length;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_tokenizer, &text, &length));
    bo_status status = bo_foreign_refuse(context, path, text, length, "a tokenizer.json or the directory of a model");
    if (status == BO_OK)
        status = bo_tokenizer_parse(context, path, text, length, out);
    else
        status = BO_FORMAT; /* as for all contents that are not a tokenizer */
    bo_free(text);
    return status;
}

static bo_status read_json(bo_context *context, const char *path, bo_json **out)
{
    char *text;
    size_t length;
    *out = NULL;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_config, &text, &length));
    const bo_status status = bo_json_parse(context, path, text, length, MAX_DEPTH, out);
    bo_free(text);
    return status;
}

/* The directory's tokenizer_config.json may name the end-of-text token. */
static bo_status read_end(bo_context *context, const char *directory, bo_tokenizer *tokenizer)
{
    char path[PATH_BYTES];
    bo_json *config;
    if (tokenizer->info.bytes || !join_path(path, directory, "tokenizer_config.json") || access(path, F_OK) != 0)
        return BO_OK;
    BO_TRY(read_json(context, path, &config));
    const bo_json *named = bo_json_member(config, "eos_token");
    const char *text = bo_json_is(named, BO_JSON_TEXT) ? named->text : bo_load_text(named, "content");
    int32_t id = text ? bo_tokenizer_find(tokenizer, text) : -1;
    if (id >= 0) tokenizer->info.end = id;
    bo_json_delete(config);
    return BO_OK;
}

/* A model of bytes needs no tokenizer.json. */
static bo_status load_bytes(bo_context *context, const char *directory, bo_tokenizer **out)
{
    char path[PATH_BYTES];
    bo_json *config;
    size_t vocab = 0;
    if (!join_path(path, directory, "config.json") || access(path, F_OK) != 0)
        return bo_fail(context, BO_IO, "%s: the directory has neither a tokenizer.json nor a config.json", directory);
    BO_TRY(read_json(context, path, &config));
    bo_json_size(bo_json_member(config, "vocab_size"), &vocab);
    bo_json_delete(config);
    if (vocab != 256)
        return bo_fail(context, BO_IO,
                       "%s: the directory has no tokenizer.json, and its vocabulary of %zu does not consist of bytes",
                       directory, vocab);
    return bo_tokenizer_create(context, out);
}

/* Loads from one file that holds a whole model (bo_model_save). */
static bo_status load_image(bo_context *context, const char *path, bo_tokenizer **out)
{
    bo_tensors *image;
    BO_TRY(bo_tensors_open(context, path, &image));
    const char *text = bo_tensors_meta(image, "tokenizer.json");
    const bo_status status = text ? bo_tokenizer_parse(context, path, text, strlen(text), out)
                                  : bo_fail(context, BO_FORMAT, "%s: the metadata contain no \"tokenizer.json\"", path);
    bo_tensors_close(image);
    return status;
}

static bool is_image(const char *path)
{
    static const char ending[] = ".safetensors";
    const size_t length = strlen(path);
    return length >= sizeof ending - 1 && strcmp(path + length - (sizeof ending - 1), ending) == 0;
}

static bo_status load_source(bo_context *context, const bo_source *source, bo_tokenizer **out)
{
    bo_bytes *bytes;
    char *text;
    size_t length;
    BO_TRY(bo_bytes_open_source(context, source, &bo_limits_tokenizer, false, &bytes));
    bo_status status = bo_bytes_rest(context, bytes, &text, &length);
    if (status == BO_OK) {
        status = bo_tokenizer_parse(context, bo_source_name(source), text, length, out);
        bo_free(text);
    }
    bo_bytes_close(bytes);
    return status;
}

static bo_status load_path(bo_context *context, const char *path, bo_tokenizer **out)
{
    char inside[PATH_BYTES];
    struct stat about;
    if (!*path) return bo_fail(context, BO_INVALID, "tokenizer: the path is empty");
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return (is_image(path) ? load_image : load_file)(context, path, out);
    if (!join_path(inside, path, "tokenizer.json"))
        return bo_fail(context, BO_INVALID, "%s: the path is too long", path);
    if (access(inside, F_OK) != 0) return load_bytes(context, path, out);
    BO_TRY(load_file(context, inside, out));
    bo_status status = read_end(context, path, *out);
    if (status != BO_OK) {
        bo_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}

bo_status bo_tokenizer_load(bo_context *context, const bo_source *source, bo_tokenizer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, source, out);
    BO_SPAN(context, "data", "load tokenizer");
    BO_TRY(bo_source_check(context, source));
    return source->path ? load_path(context, source->path, out) : load_source(context, source, out);
}
