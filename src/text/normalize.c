/* Normalizers: forms of Unicode, lower case, replaced and removed characters. */
#include "normalize.h"
#include "unicode.h"

#include <bochner/base.h>
#include <stdlib.h>
#include <utf8proc.h>

/* ---- forms of Unicode -------------------------------------------------------------------------------------------- */

static bo_status map_form(bo_context *context, int form, const char *text, size_t length, bo_buffer *to)
{
    enum { FEW = 256 };
    utf8proc_int32_t points[FEW + 1];
    utf8proc_uint8_t *changed = NULL;
    const utf8proc_option_t options = (utf8proc_option_t)form;
    utf8proc_ssize_t bytes =
        utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, points, FEW, options);
    if (bytes >= 0 && bytes <= FEW) { /* the common case needs no allocation */
        bytes = utf8proc_reencode(points, bytes, options);
        if (bytes >= 0) return bo_buffer_append(context, to, (const char *)points, (size_t)bytes);
    }
    bytes = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, &changed, options);
    const bo_status status =
        bytes < 0 ? bo_fail(context, BO_MEMORY, "normalizing %zu bytes of text: %s", length, utf8proc_errmsg(bytes))
                  : bo_buffer_append(context, to, (const char *)changed, (size_t)bytes);
    free(changed);
    return status;
}

static size_t ascii_bytes(const char *text, size_t length)
{
    size_t at = 0;
    uint64_t eight;
    for (; at + sizeof eight <= length; at += sizeof eight) {
        memcpy(&eight, text + at, sizeof eight);
        if (eight & UINT64_C(0x8080808080808080)) break;
    }
    while (at < length && (unsigned char)text[at] < 128) ++at;
    return at;
}

/* The length of the section that starts with at most one ASCII character and contains no other ASCII or inert
 * character. */
static size_t stretch_bytes(const char *text, size_t length)
{
    size_t at = (unsigned char)*text < 128 ? 1 : 0;
    while (at < length && (unsigned char)text[at] >= 128) {
        const size_t bytes = bo_utf8_length(text + at, length - at);
        if (bytes == 0 || bo_char_in(BO_CHARS_INERT, bo_utf8_point(text + at, bytes))) break;
        at += bytes;
    }
    return at;
}

/* Composes or decomposes. No form changes ASCII, and ASCII characters are not joined to what precedes them, so that the
 * text may be divided before each of them. This is also true for inert characters. */
static bo_status change_form(bo_context *context, int form, const char *text, size_t length, bo_buffer *to)
{
    for (size_t at = 0; at < length;) {
        size_t plain = ascii_bytes(text + at, length - at);
        if (plain > 0 && at + plain < length) --plain; /* a mark may follow */
        BO_TRY(bo_buffer_append(context, to, text + at, plain));
        at += plain;
        if (at == length) break;
        const size_t stretch = stretch_bytes(text + at, length - at);
        if (stretch > 0) BO_TRY(map_form(context, form, text + at, stretch, to));
        at += stretch;
        if (at == length || (unsigned char)text[at] < 128) continue;
        size_t bytes = bo_utf8_length(text + at, length - at); /* inert or invalid */
        if (bytes == 0) bytes = 1;
        BO_TRY(bo_buffer_append(context, to, text + at, bytes));
        at += bytes;
    }
    return BO_OK;
}

static bo_status apply_form(bo_context *context, int form, const char *text, size_t length, bo_buffer *to, size_t *lead)
{
    if (*lead > 0 &&
        ascii_bytes(text, length) < length) { /* the result of the first characters, and the first character */
        BO_TRY(change_form(context, form, text, *lead, to));
        *lead = to->length;
        to->length = 0;
    }
    BO_TRY(change_form(context, form, text, length, to));
    const size_t first = bo_utf8_length(to->bytes, to->length);
    if (*lead > 0 && *lead < first) *lead = first;
    return BO_OK;
}

/* ---- character by character -------------------------------------------------------------------------------------- */

enum { MAX_MAPPED = 16 }; /* maximum bytes of the result of a character */

static size_t copy_character(const char *text, size_t bytes, char *out)
{
    memcpy(out, text, bytes);
    return bytes;
}

static size_t lower(uint32_t point, char *out)
{
    if (point < 128) {
        *out = (char)(point >= 'A' && point <= 'Z' ? point + 32 : point);
        return 1;
    }
    if (point == 0x130) return copy_character("i\xcc\x87", 3, out); /* the only one with two characters */
    uint32_t small = point >= 0x1C89 ? bo_char_lower(point) : 0;
    if (!small) small = (uint32_t)utf8proc_tolower((utf8proc_int32_t)point);
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)small, (utf8proc_uint8_t *)out);
}

/* The rules of SentencePiece's nmt: control characters are removed, other separators become spaces. */
static size_t nmt(const char *text, size_t bytes, uint32_t point, char *out)
{
    if ((point >= 1 && point <= 8) || point == 0x0B || (point >= 0x0E && point <= 0x1F) || point == 0x7F ||
        point == 0x8F || point == 0x9F)
        return 0;
    if (point == 9 || point == 10 || point == 12 || point == 13 || point == 0x1680 ||
        (point >= 0x200B && point <= 0x200F) || point == 0x2028 || point == 0x2029 || point == 0x2581 ||
        point == 0xFEFF || point == 0xFFFD)
        return copy_character(" ", 1, out);
    return copy_character(text, bytes, out);
}

static size_t clean(const char *text, size_t bytes, uint32_t point, char *out)
{
    if (point == 0 || bo_char_in(BO_CHARS_OTHER, point)) return 0;
    return bo_point_space(point) ? copy_character(" ", 1, out) : copy_character(text, bytes, out);
}

/* The ranges of BERT, with their gap from U+2B820 to U+2B91F. */
static bool is_ideograph(uint32_t point)
{
    return (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0x3400 && point <= 0x4DBF) ||
           (point >= 0x20000 && point <= 0x2A6DF) || (point >= 0x2A700 && point <= 0x2B81F) ||
           (point >= 0x2B920 && point <= 0x2CEAF) || (point >= 0xF900 && point <= 0xFAFF) ||
           (point >= 0x2F800 && point <= 0x2FA1F);
}

static size_t set_apart(const char *text, size_t bytes, uint32_t point, char *out)
{
    if (!is_ideograph(point)) return copy_character(text, bytes, out);
    out[0] = out[bytes + 1] = ' ';
    memcpy(out + 1, text, bytes);
    return bytes + 2;
}

static size_t write_byte_level(const char *text, size_t bytes, char *out)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; ++i) count += bo_byte_level_write((unsigned char)text[i], out + count);
    return count;
}

static size_t map_character(const bo_text_normalizer *step, const char *text, size_t bytes, char *out)
{
    const uint32_t point = bo_utf8_point(text, bytes);
    switch (step->kind) {
    case BO_NORMALIZE_LOWERCASE:
        return lower(point, out);
    case BO_NORMALIZE_WITHOUT:
        return bo_char_in(step->set, point) ? 0 : copy_character(text, bytes, out);
    case BO_NORMALIZE_NMT:
        return nmt(text, bytes, point, out);
    case BO_NORMALIZE_CLEAN:
        return clean(text, bytes, point, out);
    case BO_NORMALIZE_IDEOGRAPHS:
        return set_apart(text, bytes, point, out);
    case BO_NORMALIZE_BYTE_LEVEL:
        return write_byte_level(text, bytes, out);
    default:
        return copy_character(text, bytes, out);
    }
}

static bo_status map_characters(bo_context *context, const bo_text_normalizer *step, const char *text, size_t length,
                                bo_buffer *to, size_t *lead)
{
    const size_t old_lead = *lead;
    *lead = 0;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        BO_TRY(bo_buffer_reserve(context, to, MAX_MAPPED));
        char *out = to->bytes + to->length;
        size_t written;
        bytes = bo_utf8_length(text + at, length - at);
        if (bytes > 0) {
            written = map_character(step, text + at, bytes, out);
        } else { /* not UTF-8 */
            bytes = 1;
            written = step->kind == BO_NORMALIZE_BYTE_LEVEL ? write_byte_level(text + at, 1, out)
                                                            : copy_character(text + at, 1, out);
        }
        to->length += written;
        if (at < old_lead) *lead += written;
    }
    return BO_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static bo_status strip(bo_context *context, const bo_text_normalizer *step, const bo_normalizing *work,
                       const char *text, size_t length, bo_buffer *to, size_t *lead)
{
    const bool left = step->left && !work->preceded, right = step->right && !work->followed;
    size_t begin = 0, end = 0, bytes;
    while (left && bo_utf8_space(text + begin, length - begin, &bytes)) begin += bytes;
    /* end: after the last character that is not white space */
    for (size_t at = begin; at < length; at += bytes ? bytes : 1)
        if (!bo_utf8_space(text + at, length - at, &bytes) || !right) end = at + (bytes ? bytes : 1);
    if (end < begin) end = begin;
    *lead = begin < *lead ? *lead - begin : 0;
    return bo_buffer_append(context, to, text + begin, end - begin);
}

static bo_status prepend(bo_context *context, const bo_text_normalizer *step, const char *text, size_t length,
                         bo_buffer *to, size_t *lead)
{
    const size_t content = length > 0 ? strlen(step->content) : 0;
    if (*lead) *lead += content;
    BO_TRY(bo_buffer_append(context, to, step->content, content));
    return bo_buffer_append(context, to, text, length);
}

/* All steps together produce at most this many bytes per byte. */
enum { MAX_GROWTH = 256, SPARE_BYTES = 1 << 20 };

static bo_status apply(bo_context *context, const bo_text_normalizer *step, bo_matcher *matcher, bo_normalizing *work,
                       const char *text, size_t length, size_t max_bytes, bo_buffer *to, size_t *lead)
{
    switch (step->kind) {
    case BO_NORMALIZE_PREPEND:
        if (work->preceded) return bo_buffer_append(context, to, text, length);
        return prepend(context, step, text, length, to, lead);
    case BO_NORMALIZE_REPLACE: {
        const bo_replacement replacement = {&step->pattern, step->content, matcher, &work->copy, max_bytes};
        return bo_pattern_replace(context, &replacement, text, length, to, lead);
    }
    case BO_NORMALIZE_FORM:
        return apply_form(context, step->form, text, length, to, lead);
    case BO_NORMALIZE_STRIP:
        return strip(context, step, work, text, length, to, lead);
    case BO_NORMALIZE_CHARSMAP:
        return bo_charsmap_apply(context, &step->charsmap, text, length, max_bytes, to, lead);
    default:
        return map_characters(context, step, text, length, to, lead);
    }
}

bo_status bo_normalize_text(bo_context *context, const bo_tokenizer *tokenizer, bo_matcher *matcher,
                            bo_normalizing *work, const char *text, size_t length, const char **out, size_t *out_length,
                            size_t *lead)
{
    const size_t max_bytes = MAX_GROWTH * length + SPARE_BYTES;
    size_t next = 0;
    *out = text;
    *out_length = length;
    for (size_t i = 0; i < tokenizer->normalizer_count; ++i) {
        const bo_text_normalizer *step = &tokenizer->normalizers[i];
        bo_buffer *to = &work->texts[next];
        if (step->kind == BO_NORMALIZE_FORM && ascii_bytes(*out, *out_length) == *out_length) continue;
        to->length = 0;
        BO_TRY(apply(context, step, matcher, work, *out, *out_length, max_bytes, to, lead));
        *out = to->length ? to->bytes : "";
        *out_length = to->length;
        next = !next;
    }
    return BO_OK;
}

void bo_normalizing_free(bo_normalizing *work)
{
    bo_buffer_free(&work->texts[0]);
    bo_buffer_free(&work->texts[1]);
    bo_buffer_free(&work->copy);
}
