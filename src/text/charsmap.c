/* Reads and applies a precompiled character map. */
#include "charsmap.h"
#include "unicode.h"

#include <bochner/base.h>
#include <utf8proc.h>

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Returns the number of bytes; SIZE_MAX: not base64. */
static size_t read64(const char *text, char *out)
{
    size_t count = 0;
    uint32_t bits = 0;
    int bit_count = 0;
    for (; *text && *text != '='; ++text) {
        const int digit = digit64(*text);
        if (digit < 0) return SIZE_MAX;
        bits = bits << 6 | (uint32_t)digit;
        bit_count += 6;
        if (bit_count < 8) continue;
        bit_count -= 8;
        out[count++] = (char)(bits >> bit_count);
    }
    return count;
}

static uint32_t little(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

bo_status bo_charsmap_read(bo_context *context, const char *where, const char *base64, bo_charsmap *out)
{
    char *bytes = bo_alloc_raw(context, strlen(base64) + 4, 1, "a character map");
    if (!bytes) return BO_MEMORY;
    const size_t size = read64(base64, bytes), trie = size != SIZE_MAX && size >= 4 ? little(bytes) : SIZE_MAX;
    if (trie > size - 4 || trie % 4 != 0) {
        bo_free(bytes);
        return bo_fail(context, BO_FORMAT, "%s: the precompiled character map is malformed", where);
    }
    out->unit_count = trie / 4;
    out->text_bytes = size - 4 - trie;
    out->units = bo_alloc_raw(context, out->unit_count + 1, sizeof *out->units, "a character map");
    out->texts = bo_alloc_raw(context, out->text_bytes + 1, 1, "a character map");
    const bool fits = out->units && out->texts; /* freed by the caller, even after a failure */
    for (size_t i = 0; fits && i < out->unit_count; ++i) out->units[i] = little(bytes + 4 + 4 * i);
    if (fits) {
        memcpy(out->texts, bytes + 4 + trie, out->text_bytes);
        out->texts[out->text_bytes] = 0;
    }
    bo_free(bytes);
    return fits ? BO_OK : BO_MEMORY;
}

void bo_charsmap_free(bo_charsmap *map)
{
    bo_free(map->units);
    bo_free(map->texts);
    *map = (bo_charsmap){0};
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The replacement of the shortest string of the map with which the text starts; NULL: none. The units have the layout
 * of Darts-clone: bit 8 marks the end of a string, bit 31 marks a value. */
static const char *find(const bo_charsmap *map, const char *text, size_t length)
{
    if (map->unit_count == 0) return NULL;
    size_t node = offset_of(map->units[0]);
    for (size_t i = 0; i < length && text[i]; ++i) {
        const unsigned char byte = (unsigned char)text[i];
        node ^= byte;
        if (node >= map->unit_count) return NULL;
        const uint32_t unit = map->units[node];
        if ((unit & (1u << 31 | 0xFF)) != byte) return NULL;
        node ^= offset_of(unit);
        if (!(unit & 1u << 8)) continue;
        if (node >= map->unit_count) return NULL;
        const uint32_t value = map->units[node] & ~(1u << 31);
        return value <= map->text_bytes ? map->texts + value : NULL;
    }
    return NULL;
}

/* Bytes of the grapheme at the start of valid text. */
static size_t grapheme(const char *text, size_t length)
{
    size_t at = bo_utf8_length(text, length);
    utf8proc_int32_t state = 0, before = (utf8proc_int32_t)bo_utf8_point(text, at);
    while (at < length) {
        const size_t bytes = bo_utf8_length(text + at, length - at);
        const utf8proc_int32_t point = (utf8proc_int32_t)bo_utf8_point(text + at, bytes);
        if (utf8proc_grapheme_break_stateful(before, point, &state)) break;
        before = point;
        at += bytes;
    }
    return at;
}

static bo_status replace_grapheme(bo_context *context, const bo_charsmap *map, const char *text, size_t length,
                                  bo_buffer *to)
{
    enum { WHOLE = 5 };
    const char *found = length <= WHOLE ? find(map, text, length) : NULL;
    if (found) return bo_buffer_append(context, to, found, strlen(found));
    for (size_t at = 0, bytes; at < length; at += bytes) {
        bytes = bo_utf8_length(text + at, length - at);
        found = find(map, text + at, bytes);
        BO_TRY(bo_buffer_append(context, to, found ? found : text + at, found ? strlen(found) : bytes));
    }
    return BO_OK;
}

/* Counts in *new_lead the bytes that come from the first `lead` bytes. */
static bo_status apply_valid(bo_context *context, const bo_charsmap *map, const char *text, size_t length,
                             size_t max_bytes, size_t lead, bo_buffer *to, size_t *new_lead)
{
    for (size_t at = 0, bytes; at < length; at += bytes) {
        const size_t before = to->length;
        if (before > max_bytes)
            return bo_fail(context, BO_UNSUPPORTED, "the character map produces a text of more than %zu bytes",
                           max_bytes);
        bytes = grapheme(text + at, length - at);
        BO_TRY(replace_grapheme(context, map, text + at, bytes, to));
        if (at < lead) *new_lead += to->length - before;
    }
    return BO_OK;
}

bo_status bo_charsmap_apply(bo_context *context, const bo_charsmap *map, const char *text, size_t length,
                            size_t max_bytes, bo_buffer *to, size_t *lead)
{
    const size_t start = to->length;
    size_t new_lead = 0;
    for (size_t at = 0; at < length;) {
        const size_t valid = bo_utf8_valid(text + at, length - at), rest = at < *lead ? *lead - at : 0;
        BO_TRY(apply_valid(context, map, text + at, valid, max_bytes, rest, to, &new_lead));
        at += valid;
        const size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(bo_buffer_append(context, to, text + at, invalid));
        at += invalid;
    }
    /* After characters are removed at the start, the next character becomes the first. */
    if (*lead && new_lead == 0 && to->length > start) new_lead = 1;
    *lead = new_lead;
    return BO_OK;
}
