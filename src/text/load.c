/* Reads tokenizer.json as Hugging Face's `tokenizers` writes it: the file, its parts, and derived tables. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>
#include "../base/trace.h"
#include "../base/rng.h"
#include "buffer.h"
#include "load.h"
#include "../io/bytes.h"
#include "../io/tensors.h"
#include "unicode.h"

enum { MOST_DEPTH = 32, PATH_BYTES = 4096 };

/* ---- shared functions -------------------------------------------------------------------------------------------- */

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

/* {"String": s} or {"Regex": r}. */
static bo_status load_pattern(const bo_loading *loading, const cJSON *item, bo_pattern *out)
{
    const char *string = bo_load_text(item, "String"), *expression = bo_load_text(item, "Regex");
    if (cJSON_IsString(item)) string = item->valuestring;
    if (expression) return bo_pattern_compile(loading->context, loading->where, expression, out);
    if (string) return bo_pattern_string(loading->context, string, out);
    return bo_fail(loading->context, BO_FORMAT, "%s: a pattern is neither a String nor a Regex", loading->where);
}

/* Calls `load` for every member of the list `name` of a Sequence. */
typedef bo_status (*load_fn)(bo_loading *loading, const cJSON *part);
static bo_status load_sequence(bo_loading *loading, const cJSON *part, const char *name, load_fn load)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(part, name), *item;
    if (!cJSON_IsArray(list))
        return bo_fail(loading->context, BO_FORMAT, "%s: a Sequence has no list \"%s\"", loading->where, name);
    cJSON_ArrayForEach(item, list) BO_TRY(load(loading, item));
    return BO_OK;
}

/* ====================================================================================================================
 * Normalizers and pre-tokenizers. */

/* ---- normalizers ------------------------------------------------------------------------------------------------- */

static bo_status load_form(bo_loading *loading, const cJSON *part, bo_text_normalizer *step)
{
    static const struct {
        const char *name;
        int options;
    } forms[] = {
        {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
        {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
        {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
        {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i)
        if (strcmp(bo_load_type(part), forms[i].name) == 0) {
            *step = (bo_text_normalizer){.kind = BO_NORMALIZE_FORM, .form = forms[i].options};
            return BO_OK;
        }
    return bo_load_refuse(loading, "a normalizer", part);
}

static bo_status keep_content(bo_loading *loading, const cJSON *part, const char *name, bo_text_normalizer *step)
{
    const char *content = bo_load_text(part, name);
    if (!content)
        return bo_fail(loading->context, BO_FORMAT, "%s: a normalizer of type %s has no \"%s\"", loading->where,
                       bo_load_type(part), name);
    step->content = bo_strdup(loading->context, content);
    return step->content ? BO_OK : BO_MEMORY;
}

static bo_status load_normalizer(bo_loading *loading, const cJSON *part)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const char *type = bo_load_type(part);
    if (!part || cJSON_IsNull(part)) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return load_sequence(loading, part, "normalizers", load_normalizer);
    if (tokenizer->normalizer_count == BO_MOST_STEPS)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: more than %d normalizers are not supported",
                       loading->where, BO_MOST_STEPS);
    bo_text_normalizer *step = &tokenizer->normalizers[tokenizer->normalizer_count++]; /* freed in any case */
    if (strcmp(type, "Prepend") == 0) {
        step->kind = BO_NORMALIZE_PREPEND;
        return keep_content(loading, part, "prepend", step);
    }
    if (strcmp(type, "Replace") == 0) {
        step->kind = BO_NORMALIZE_REPLACE;
        BO_TRY(load_pattern(loading, cJSON_GetObjectItemCaseSensitive(part, "pattern"), &step->pattern));
        return keep_content(loading, part, "content", step);
    }
    if (strcmp(type, "Strip") == 0) {
        step->kind = BO_NORMALIZE_STRIP;
        step->left = bo_load_flag(part, "strip_left", true);
        step->right = bo_load_flag(part, "strip_right", true);
        return BO_OK;
    }
    if (strcmp(type, "Lowercase") == 0) {
        step->kind = BO_NORMALIZE_LOWERCASE;
        return BO_OK;
    }
    return load_form(loading, part, step);
}

/* ---- pre-tokenizers ---------------------------------------------------------------------------------------------- */

static bo_status load_byte_level(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    strcpy(step->prefix, " ");
    step->prefixing = bo_load_flag(part, "add_prefix_space", true) ? BO_PREFIX_ALWAYS : BO_PREFIX_NEVER;
    step->behavior = BO_SPLIT_ISOLATED;
    loading->tokenizer->byte_level = true;
    if (!bo_load_flag(part, "use_regex", true)) return BO_OK;
    return bo_pattern_compile(loading->context, loading->where, bo_gpt2_pattern, &step->pattern);
}

static bo_status load_split(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    static const char *const names[] = {
        [BO_SPLIT_REMOVED] = "Removed",
        [BO_SPLIT_ISOLATED] = "Isolated",
        [BO_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [BO_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [BO_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *behavior = bo_load_text(part, "behavior");
    size_t i = 0, count = sizeof names / sizeof *names;
    while (i < count && !(behavior && strcmp(behavior, names[i]) == 0)) ++i;
    if (i == count)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: the behavior \"%.80s\" of a Split is not supported",
                       loading->where, behavior ? behavior : "");
    step->behavior = (bo_behavior)i;
    step->invert = bo_load_flag(part, "invert", false);
    return load_pattern(loading, cJSON_GetObjectItemCaseSensitive(part, "pattern"), &step->pattern);
}

static bo_status load_metaspace(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    const char *blank = bo_load_text(part, "replacement"), *scheme = bo_load_text(part, "prepend_scheme");
    if (!blank || !*blank || strlen(blank) >= sizeof step->blank)
        return bo_fail(loading->context, BO_FORMAT, "%s: a Metaspace has no character for \"replacement\"",
                       loading->where);
    strcpy(step->blank, blank);
    strcpy(step->prefix, blank);
    if (!scheme) scheme = bo_load_flag(part, "add_prefix_space", true) ? "always" : "never";
    step->prefixing = strcmp(scheme, "always") == 0  ? BO_PREFIX_ALWAYS
                      : strcmp(scheme, "first") == 0 ? BO_PREFIX_FIRST
                                                     : BO_PREFIX_NEVER;
    step->behavior = BO_SPLIT_MERGED_WITH_NEXT;
    return bo_load_flag(part, "split", true) ? bo_pattern_string(loading->context, blank, &step->pattern) : BO_OK;
}

/* Pre-tokenizers that consist of an expression and a behavior for its matches. */
static bo_status load_named(bo_loading *loading, const cJSON *part, bo_splitter *step)
{
    const char *type = bo_load_type(part), *expression = NULL;
    if (strcmp(type, "Digits") == 0) {
        bool single = bo_load_flag(part, "individual_digits", false);
        expression = "\\p{N}";
        step->behavior = single ? BO_SPLIT_ISOLATED : BO_SPLIT_CONTIGUOUS;
    } else if (strcmp(type, "Whitespace") == 0) {
        expression = "\\w+|[^\\w\\s]+";
        step->behavior = BO_SPLIT_REMOVED;
        step->invert = true;
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        expression = "\\s+";
        step->behavior = BO_SPLIT_REMOVED;
    }
    if (!expression) return bo_load_refuse(loading, "a pre-tokenizer", part);
    return bo_pattern_compile(loading->context, loading->where, expression, &step->pattern);
}

static bo_status load_splitter(bo_loading *loading, const cJSON *part)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const char *type = bo_load_type(part);
    if (!part || cJSON_IsNull(part)) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return load_sequence(loading, part, "pretokenizers", load_splitter);
    if (tokenizer->byte_level) /* a later step would split byte letters, which are not created here */
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: a pre-tokenizer (%.80s) after ByteLevel is not supported",
                       loading->where, type);
    if (tokenizer->splitter_count == BO_MOST_STEPS)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: more than %d pre-tokenizers are not supported",
                       loading->where, BO_MOST_STEPS);
    bo_splitter *step = &tokenizer->splitters[tokenizer->splitter_count++]; /* freed in any case */
    if (strcmp(type, "ByteLevel") == 0) return load_byte_level(loading, part, step);
    if (strcmp(type, "Split") == 0) return load_split(loading, part, step);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(loading, part, step);
    return load_named(loading, part, step);
}

/* ====================================================================================================================
 * Decoders, which give every token its bytes in running text, and the special tokens around a text. */

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

typedef enum bo_decoder_kind { BO_DECODE_LETTERS, BO_DECODE_REPLACE, BO_DECODE_BYTE, BO_DECODE_STRIP } bo_decoder_kind;

typedef struct bo_decoder_step {
    bo_decoder_kind kind;
    const char *from, *to; /* REPLACE; STRIP: from */
    size_t start, stop;    /* STRIP */
} bo_decoder_step;

/* `fused`: later decoders apply to the whole text. `written` counts the bytes that Replace decoders have written, which
 * may be at most MOST_GROWTH times the size of the file and SPARE_BYTES: each of them may lengthen what the one before it
 * has written. */
enum { MOST_GROWTH = 64, SPARE_BYTES = 1 << 20 };
typedef struct bo_decoding {
    bo_loading *loading;
    bo_decoder_step steps[BO_MOST_STEPS];
    size_t count;
    bool fused;
    size_t written;
} bo_decoding;

static bo_status add_step(bo_decoding *decoding, bo_decoder_step step)
{
    const bo_loading *loading = decoding->loading;
    if (decoding->count == BO_MOST_STEPS || decoding->fused)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: %s is not supported", loading->where,
                       decoding->fused ? "a decoder after Fuse, except Strip," : "a list of decoders of this length");
    decoding->steps[decoding->count++] = step;
    return BO_OK;
}

static bo_status strip_whole(bo_decoding *decoding, const char *content, size_t start, size_t stop)
{
    bo_tokenizer *tokenizer = decoding->loading->tokenizer;
    if (tokenizer->stripped)
        return bo_fail(decoding->loading->context, BO_UNSUPPORTED, "%s: two Strip decoders are not supported",
                       decoding->loading->where);
    tokenizer->stripped = bo_strdup(decoding->loading->context, content);
    tokenizer->strip_start = start;
    tokenizer->strip_stop = stop;
    return tokenizer->stripped ? BO_OK : BO_MEMORY;
}

static bo_status read_strip(bo_decoding *decoding, const cJSON *part)
{
    const char *content = bo_load_text(part, "content");
    size_t start = 0, stop = 0;
    bo_json_size(cJSON_GetObjectItemCaseSensitive(part, "start"), &start);
    bo_json_size(cJSON_GetObjectItemCaseSensitive(part, "stop"), &stop);
    if (!content || !*content)
        return bo_fail(decoding->loading->context, BO_FORMAT, "%s: a Strip has no \"content\"",
                       decoding->loading->where);
    if (decoding->fused) return strip_whole(decoding, content, start, stop);
    return add_step(decoding, (bo_decoder_step){BO_DECODE_STRIP, content, NULL, start, stop});
}

static bo_status read_metaspace(bo_decoding *decoding, const cJSON *part)
{
    const char *blank = bo_load_text(part, "replacement"), *scheme = bo_load_text(part, "prepend_scheme");
    bool prefixed = scheme ? strcmp(scheme, "never") != 0 : bo_load_flag(part, "add_prefix_space", true);
    if (!blank || !*blank)
        return bo_fail(decoding->loading->context, BO_FORMAT, "%s: a Metaspace has no \"replacement\"",
                       decoding->loading->where);
    BO_TRY(add_step(decoding, (bo_decoder_step){.kind = BO_DECODE_REPLACE, .from = blank, .to = " "}));
    return prefixed ? strip_whole(decoding, " ", 1, 0) : BO_OK;
}

static bo_status read_decoder(bo_decoding *decoding, const cJSON *part)
{
    const char *type = bo_load_type(part);
    bo_loading *loading = decoding->loading;
    if (!part || cJSON_IsNull(part)) return BO_OK;
    if (strcmp(type, "Sequence") == 0) {
        const cJSON *item;
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(part, "decoders"))
            BO_TRY(read_decoder(decoding, item));
        return BO_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) return add_step(decoding, (bo_decoder_step){.kind = BO_DECODE_LETTERS});
    if (strcmp(type, "ByteFallback") == 0) return add_step(decoding, (bo_decoder_step){.kind = BO_DECODE_BYTE});
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(decoding, part);
    if (strcmp(type, "Strip") == 0) return read_strip(decoding, part);
    if (strcmp(type, "Fuse") == 0) {
        decoding->fused = true;
        return BO_OK;
    }
    if (strcmp(type, "Replace") == 0) {
        const char *from = bo_load_text(cJSON_GetObjectItemCaseSensitive(part, "pattern"), "String");
        const char *to = bo_load_text(part, "content");
        if (!from || !*from || !to)
            return bo_fail(loading->context, BO_UNSUPPORTED,
                           "%s: a Replace decoder without a String to look for is not "
                           "supported",
                           loading->where);
        return add_step(decoding, (bo_decoder_step){.kind = BO_DECODE_REPLACE, .from = from, .to = to});
    }
    return bo_load_refuse(loading, "a decoder", part);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static bo_status append_replaced(bo_decoding *decoding, bo_buffer *to, const char *bytes, size_t length)
{
    const bo_loading *loading = decoding->loading;
    const size_t most = MOST_GROWTH * loading->tokenizer->source_bytes + SPARE_BYTES;
    decoding->written += length;
    if (decoding->written > most)
        return bo_fail(loading->context, BO_UNSUPPORTED,
                       "%s: the decoders write at least %zu bytes for the texts of the tokens, expected at most %zu",
                       loading->where, decoding->written, most);
    return bo_buffer_append(loading->context, to, bytes, length);
}

static bo_status replace(bo_decoding *decoding, const bo_decoder_step *step, const bo_buffer *text, bo_buffer *to)
{
    const char *at = text->bytes, *end = at + text->length, *found;
    const size_t from = strlen(step->from), content = strlen(step->to);
    while (at < end && (found = memmem(at, (size_t)(end - at), step->from, from))) {
        BO_TRY(append_replaced(decoding, to, at, (size_t)(found - at)));
        BO_TRY(append_replaced(decoding, to, step->to, content));
        at = found + from;
    }
    return at < end ? append_replaced(decoding, to, at, (size_t)(end - at)) : BO_OK;
}

/* "<0x0A>" */
static bool read_byte(const char *text, size_t length, char *byte)
{
    static const char digits[] = "0123456789ABCDEF";
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return false;
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    if (!high || !low) return false;
    *byte = (char)(16 * (high - digits) + (low - digits));
    return true;
}

void bo_strip_ends(const char *content, size_t start, size_t stop, const char **text, size_t *length)
{
    const size_t bytes = strlen(content);
    for (; start > 0 && *length >= bytes && memcmp(*text, content, bytes) == 0; --start) {
        *text += bytes;
        *length -= bytes;
    }
    for (; stop > 0 && *length >= bytes && memcmp(*text + *length - bytes, content, bytes) == 0; --stop)
        *length -= bytes;
}

/* Applies one step to *text and writes `to`. Text that contains other characters than byte letters is unchanged. */
static bo_status decode(bo_decoding *decoding, const bo_decoder_step *step, const bo_buffer *text, bo_buffer *to)
{
    bo_context *context = decoding->loading->context;
    const char *bytes = text->bytes;
    size_t length = text->length;
    char byte;
    to->length = 0;
    if (step->kind == BO_DECODE_REPLACE) return replace(decoding, step, text, to);
    if (step->kind == BO_DECODE_BYTE && read_byte(bytes, length, &byte)) return bo_buffer_append(context, to, &byte, 1);
    if (step->kind == BO_DECODE_STRIP) bo_strip_ends(step->from, step->start, step->stop, &bytes, &length);
    BO_TRY(bo_buffer_append(context, to, bytes, length));
    if (step->kind == BO_DECODE_LETTERS) {
        size_t count = bo_letters_read(bytes, length, to->bytes);
        if (count == SIZE_MAX)
            memcpy(to->bytes, bytes, length);
        else
            to->length = count;
    }
    return BO_OK;
}

/* Added tokens appear in text as they are written. */
static bo_status decode_token(bo_decoding *decoding, size_t id, bool plain, bo_buffer work[2], bo_buffer *pieces)
{
    const bo_tokenizer *tokenizer = decoding->loading->tokenizer;
    bo_context *context = decoding->loading->context;
    size_t length, now = 0;
    const char *text = bo_spelling_at(&tokenizer->texts, id, &length);
    work[0].length = 0;
    BO_TRY(bo_buffer_append(context, &work[0], text, length));
    for (size_t i = 0; i < decoding->count && !plain; ++i, now = !now)
        BO_TRY(decode(decoding, &decoding->steps[i], &work[now], &work[!now]));
    return bo_buffer_append(context, pieces, work[now].bytes, work[now].length);
}

static bo_status decode_tokens(bo_decoding *decoding, bool *plain, size_t *starts, bo_buffer work[2], bo_buffer *pieces)
{
    const bo_tokenizer *tokenizer = decoding->loading->tokenizer;
    for (int i = 0; i < 2; ++i) BO_TRY(bo_buffer_reserve(decoding->loading->context, &work[i], 1)); /* never NULL */
    for (size_t i = 0; i < tokenizer->added_count; ++i) plain[tokenizer->added[i].id] = true;
    for (size_t id = 0; id < tokenizer->vocab; ++id) {
        BO_TRY(decode_token(decoding, id, plain[id], work, pieces));
        starts[id + 1] = pieces->length;
    }
    return bo_buffer_append(decoding->loading->context, pieces, "", 1);
}

static bo_status make_pieces(bo_decoding *decoding)
{
    bo_tokenizer *tokenizer = decoding->loading->tokenizer;
    bo_context *context = decoding->loading->context;
    bo_buffer work[2] = {{0}}, pieces = {0};
    bool *plain = bo_alloc(context, tokenizer->vocab, sizeof *plain, "the texts of tokens");
    size_t *starts = bo_alloc(context, tokenizer->vocab + 1, sizeof *starts, "the texts of tokens");
    bo_status status = plain && starts ? decode_tokens(decoding, plain, starts, work, &pieces) : BO_MEMORY;
    tokenizer->pieces = (bo_spellings){pieces.bytes, starts, tokenizer->vocab};
    bo_buffer_free(&work[0]);
    bo_buffer_free(&work[1]);
    bo_free(plain);
    return status;
}

static bo_status load_decoder(bo_loading *loading, const cJSON *decoder)
{
    bo_decoding decoding = {.loading = loading};
    BO_TRY(read_decoder(&decoding, decoder));
    if (decoding.count == 0 && loading->tokenizer->byte_level)
        BO_TRY(add_step(&decoding, (bo_decoder_step){.kind = BO_DECODE_LETTERS}));
    return make_pieces(&decoding);
}

/* ---- special tokens around a text -------------------------------------------------------------------------------- */

/* Templates have one to three special tokens. Each text is copied with all of them, and each is looked up by name. */
enum { MOST_FRAME = 64 };

static bo_status frame_add(bo_loading *loading, size_t id, bool before)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    size_t count = tokenizer->frame_before + tokenizer->frame_after;
    if (id >= tokenizer->vocab)
        return bo_fail(loading->context, BO_FORMAT, "%s: the template contains the id %zu; the vocabulary has %zu",
                       loading->where, id, tokenizer->vocab);
    if (count == MOST_FRAME)
        return bo_fail(loading->context, BO_UNSUPPORTED,
                       "%s: the template adds at least %zu tokens to a text, expected at most %d", loading->where,
                       count + 1, MOST_FRAME);
    int32_t *larger = bo_realloc(loading->context, tokenizer->frame, count + 1, sizeof *larger, "a template");
    if (!larger) return BO_MEMORY;
    larger[count] = (int32_t)id;
    tokenizer->frame = larger;
    ++*(before ? &tokenizer->frame_before : &tokenizer->frame_after);
    return BO_OK;
}

/* The list "single": special tokens before and after the sequence. */
static bo_status read_template(bo_loading *loading, const cJSON *part)
{
    const cJSON *known = cJSON_GetObjectItemCaseSensitive(part, "special_tokens"), *item, *id;
    const cJSON *single = cJSON_GetObjectItemCaseSensitive(part, "single");
    bool before = true;
    if (loading->tokenizer->frame)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: two templates are not supported", loading->where);
    if (cJSON_GetArraySize(single) > MOST_FRAME + 1) /* the text is one of them */
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: the template has %d items, expected at most %d",
                       loading->where, cJSON_GetArraySize(single), MOST_FRAME + 1);
    cJSON_ArrayForEach(item, single)
    {
        const cJSON *special = cJSON_GetObjectItemCaseSensitive(item, "SpecialToken");
        const char *name = bo_load_text(special, "id");
        if (!special) before = false;
        if (!special) continue;
        const cJSON *entry = name ? cJSON_GetObjectItemCaseSensitive(known, name) : NULL;
        cJSON_ArrayForEach(id, cJSON_GetObjectItemCaseSensitive(entry, "ids"))
        {
            size_t number;
            if (!bo_json_size(id, &number))
                return bo_fail(loading->context, BO_FORMAT, "%s: the template's token \"%.80s\" has no id",
                               loading->where, name);
            BO_TRY(frame_add(loading, number, before));
        }
    }
    return BO_OK;
}

static bo_status load_frame(bo_loading *loading, const cJSON *part)
{
    const char *type = bo_load_type(part);
    /* ByteLevel here concerns offsets only */
    if (!part || cJSON_IsNull(part) || strcmp(type, "ByteLevel") == 0) return BO_OK;
    if (strcmp(type, "Sequence") == 0) return load_sequence(loading, part, "processors", load_frame);
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(loading, part);
    return bo_load_refuse(loading, "a post-processor", part);
}

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

/* FNV-1a over the normalizer and the pre-tokenizer, which determine ids as much as the vocabulary does. */
static bo_status hash_part(bo_loading *loading, const cJSON *part)
{
    if (!part) return BO_OK;
    char *text = cJSON_PrintUnformatted(part);
    if (!text) return bo_fail(loading->context, BO_MEMORY, "%s: out of memory", loading->where);
    for (const char *p = text; *p; ++p) loading->hash = (loading->hash ^ (unsigned char)*p) * 1099511628211u;
    cJSON_free(text);
    return BO_OK;
}

/* True if the vocabulary is the 256 letters in the order of their bytes and nothing else: the byte tokenizer, as it is
 * saved. */
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
        return bo_fail(loading->context, BO_FORMAT, "%s: expected a tokenizer.json with a member \"model\", found none",
                       loading->where);
    BO_TRY(load_normalizer(loading, normalizer));
    BO_TRY(load_splitter(loading, splitter));
    BO_TRY(hash_part(loading, normalizer));
    BO_TRY(hash_part(loading, splitter));
    BO_TRY(bo_load_model(loading, model, cJSON_GetObjectItemCaseSensitive(root, "added_tokens")));
    BO_TRY(load_decoder(loading, cJSON_GetObjectItemCaseSensitive(root, "decoder")));
    BO_TRY(load_frame(loading, cJSON_GetObjectItemCaseSensitive(root, "post_processor")));
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
    if (length > bo_limits_tokenizer.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_tokenizer.bytes);
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

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool join_path(char *out, const char *folder, const char *name)
{
    return snprintf(out, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

static bo_status load_file(bo_context *context, const char *path, bo_tokenizer **out)
{
    char *text;
    size_t length;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_tokenizer, &text, &length));
    const bo_status status = bo_tokenizer_parse(context, path, text, length, out);
    bo_free(text);
    return status;
}

static bo_status read_json(bo_context *context, const char *path, cJSON **out)
{
    char *text;
    size_t length;
    *out = NULL;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_config, &text, &length));
    const bo_status status = bo_json_parse(context, path, text, length, MOST_DEPTH, out);
    bo_free(text);
    return status;
}

/* The folder's tokenizer_config.json may name the end-of-text token. */
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
                       "%s: the folder has no tokenizer.json, and its vocabulary of %zu does not consist of bytes",
                       folder, vocab);
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

bo_status bo_tokenizer_load_memory(bo_context *context, const void *bytes, size_t size, bo_tokenizer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    BO_REQUIRE_IF(context, size > 0, bytes);
    return bo_tokenizer_parse(context, "memory", bytes, size, out);
}

bo_status bo_tokenizer_load(bo_context *context, const char *path, bo_tokenizer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, path, out);
    BO_SPAN(context, "data", "load tokenizer");
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
