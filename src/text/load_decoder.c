/* Decoders, which give every token the bytes it stands for in running text, and the special tokens around a text. */
#include "load.h"
#include "buffer.h"
#include "unicode.h"

#include <string.h>

/* ---- decoders ----------------------------------------------------------------------------------------------------- */

typedef enum bo_decoder_kind { BO_DECODE_LETTERS, BO_DECODE_REPLACE, BO_DECODE_BYTE, BO_DECODE_STRIP } bo_decoder_kind;

typedef struct bo_decoder_step {
    bo_decoder_kind kind;
    const char *from, *to; /* REPLACE; STRIP: from */
    size_t start, stop;    /* STRIP */
} bo_decoder_step;

/* `fused`: from here on a decoder is about the whole text. */
typedef struct bo_decoding {
    bo_loading *loading;
    bo_decoder_step steps[BO_MOST_STEPS];
    size_t count;
    bool fused;
} bo_decoding;

static bo_status add_step(bo_decoding *decoding, bo_decoder_step step)
{
    const bo_loading *loading = decoding->loading;
    if (decoding->count == BO_MOST_STEPS || decoding->fused)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: %s is not supported", loading->where,
                       decoding->fused ? "a decoder after Fuse, except Strip," : "so long a list of decoders");
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

/* ---- pieces ------------------------------------------------------------------------------------------------------- */

static bo_status replace(bo_context *context, const bo_decoder_step *step, const bo_buffer *text, bo_buffer *to)
{
    const char *at = text->bytes, *end = at + text->length, *found;
    const size_t from = strlen(step->from), content = strlen(step->to);
    while (at < end && (found = memmem(at, (size_t)(end - at), step->from, from))) {
        BO_TRY(bo_buffer_append(context, to, at, (size_t)(found - at)));
        BO_TRY(bo_buffer_append(context, to, step->to, content));
        at = found + from;
    }
    return at < end ? bo_buffer_append(context, to, at, (size_t)(end - at)) : BO_OK;
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

/* One step: from *text to `to`. Letters that are none leave the token as it is. */
static bo_status decode(bo_context *context, const bo_decoder_step *step, const bo_buffer *text, bo_buffer *to)
{
    const char *bytes = text->bytes;
    size_t length = text->length;
    char byte;
    to->length = 0;
    if (step->kind == BO_DECODE_REPLACE) return replace(context, step, text, to);
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

/* Added tokens stand in text as they are written. */
static bo_status decode_token(bo_decoding *decoding, size_t id, bool plain, bo_buffer work[2], bo_buffer *pieces)
{
    const bo_tokenizer *tokenizer = decoding->loading->tokenizer;
    bo_context *context = decoding->loading->context;
    size_t length, now = 0;
    const char *text = bo_spelling_at(&tokenizer->texts, id, &length);
    work[0].length = 0;
    BO_TRY(bo_buffer_append(context, &work[0], text, length));
    for (size_t i = 0; i < decoding->count && !plain; ++i, now = !now)
        BO_TRY(decode(context, &decoding->steps[i], &work[now], &work[!now]));
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

bo_status bo_load_decoder(bo_loading *loading, const cJSON *decoder)
{
    bo_decoding decoding = {.loading = loading};
    BO_TRY(read_decoder(&decoding, decoder));
    if (decoding.count == 0 && loading->tokenizer->byte_level)
        BO_TRY(add_step(&decoding, (bo_decoder_step){.kind = BO_DECODE_LETTERS}));
    return make_pieces(&decoding);
}

/* ---- the frame ---------------------------------------------------------------------------------------------------- */

static bo_status frame_add(bo_loading *loading, size_t id, bool before)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    size_t count = tokenizer->frame_before + tokenizer->frame_after;
    if (id >= tokenizer->vocab)
        return bo_fail(loading->context, BO_FORMAT, "%s: the template has the id %zu of %zu", loading->where, id,
                       tokenizer->vocab);
    int32_t *larger = bo_realloc(loading->context, tokenizer->frame, count + 1, sizeof *larger, "a template");
    if (!larger) return BO_MEMORY;
    larger[count] = (int32_t)id;
    tokenizer->frame = larger;
    ++*(before ? &tokenizer->frame_before : &tokenizer->frame_after);
    return BO_OK;
}

/* The list "single": special tokens before and after the one sequence. */
static bo_status read_template(bo_loading *loading, const cJSON *part)
{
    const cJSON *known = cJSON_GetObjectItemCaseSensitive(part, "special_tokens"), *item, *id;
    bool before = true;
    if (loading->tokenizer->frame)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: two templates are not supported", loading->where);
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(part, "single"))
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

bo_status bo_load_frame(bo_loading *loading, const cJSON *part)
{
    const char *type = bo_load_type(part);
    if (!part || cJSON_IsNull(part) || strcmp(type, "ByteLevel") == 0) return BO_OK; /* that one is about offsets */
    if (strcmp(type, "Sequence") == 0) return bo_load_sequence(loading, part, "processors", bo_load_frame);
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(loading, part);
    return bo_load_refuse(loading, "a post-processor", part);
}
