/* UTF-8: validation, white space, and the byte-level symbols. */
#include "unicode.h"
#include "unicode_tables.h"

#include <bochner/base.h>
#include <string.h>
#include <utf8proc.h>

size_t bo_utf8_valid(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        if (at + sizeof eight <= length) { /* ASCII, eight at a time */
            memcpy(&eight, text + at, sizeof eight);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                at += sizeof eight;
                continue;
            }
        }
        size_t bytes = bo_utf8_length(text + at, length - at);
        if (bytes == 0) break;
        at += bytes;
    }
    return at;
}

bool bo_utf8_is_space_only(const char *text, size_t length)
{
    for (size_t at = 0, bytes; at < length; at += bytes)
        if (!bo_utf8_space(text + at, length - at, &bytes)) return false;
    return true;
}

int bo_utf8_control(const char *text, size_t length)
{
    const unsigned char first = (unsigned char)text[0], second = length > 1 ? (unsigned char)text[1] : 0;
    if (first < 0x20 || first == 0x7f) return first;
    return first == 0xc2 && second >= 0x80 && second < 0xa0 ? second : -1;
}

bool bo_utf8_has_control(const char *text, size_t length)
{
    for (size_t i = 0; i < length; ++i)
        if (bo_utf8_control(text + i, length - i) >= 0) return true;
    return false;
}

size_t bo_utf8_invalid(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length && bo_utf8_length(text + at, length - at) == 0) ++at;
    return at;
}

uint32_t bo_utf8_point(const char *text, size_t bytes)
{
    const unsigned char *b = (const unsigned char *)text;
    if (bytes == 1) return b[0];
    if (bytes == 2) return (uint32_t)(b[0] & 0x1F) << 6 | (b[1] & 0x3F);
    if (bytes == 3) return (uint32_t)(b[0] & 0x0F) << 12 | (uint32_t)(b[1] & 0x3F) << 6 | (b[2] & 0x3F);
    return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3F) << 12 | (uint32_t)(b[2] & 0x3F) << 6 | (b[3] & 0x3F);
}

bool bo_point_space(uint32_t point)
{
    if (point < 0x80) return point == ' ' || (point >= 9 && point <= 13);
    return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
           point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool bo_utf8_space(const char *text, size_t length, size_t *bytes)
{
    *bytes = bo_utf8_length(text, length);
    return *bytes > 0 && bo_point_space(bo_utf8_point(text, *bytes));
}

size_t bo_utf8_stand_in(const char *text, size_t length, char *out)
{
    size_t first = length;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        const unsigned char byte = (unsigned char)text[at];
        bytes = 1;
        if (byte < 0xE0) continue; /* ASCII, and characters of two bytes: none has a stand-in */
        bytes = byte < 0xF0 ? 3 : 4;
        if ((byte >= 0xE4 && byte <= 0xE9) || bytes > length - at) continue; /* ideographs */
        const uint32_t point = bo_char_stand_in(bo_utf8_point(text + at, bytes));
        if (!point) continue;
        if (first == length) first = at;
        if (!out) break;
        utf8proc_encode_char((utf8proc_int32_t)point, (utf8proc_uint8_t *)out + at);
    }
    return first;
}

/* ---- letters ----------------------------------------------------------------------------------------------------- */

static bool prints(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The bytes that do not print are 0 to 32, 127 to 160 and 173. */
static unsigned code_point_of_byte(unsigned byte)
{
    if (prints(byte)) return byte;
    return byte <= 32 ? 256 + byte : byte == 173 ? 256 + 33 + 34 : 256 + 33 + byte - 127;
}

static int byte_of(unsigned point)
{
    if (point < 256) return prints(point) ? (int)point : -1;
    if (point <= 256 + 32) return (int)point - 256;
    if (point < 256 + 33 + 34) return (int)point - 256 - 33 + 127;
    return point == 256 + 33 + 34 ? 173 : -1;
}

size_t bo_byte_level_write(unsigned char byte, char *out)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code_point_of_byte(byte), (utf8proc_uint8_t *)out);
}

unsigned char bo_byte_level_byte(size_t place)
{
    unsigned byte = 0;
    for (int pass = 1; pass >= 0; --pass) /* printing bytes first */
        for (byte = 0; byte < 256; ++byte)
            if (prints(byte) == pass && place-- == 0) return (unsigned char)byte;
    return (unsigned char)byte;
}

size_t bo_byte_level_read(const char *text, size_t length, char *out)
{
    size_t count = 0;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        utf8proc_int32_t point = -1;
        bytes = bo_utf8_length(text + at, length - at);
        if (bytes == 0) return SIZE_MAX;
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)bytes, &point);
        int byte = byte_of((unsigned)point);
        if (byte < 0) return SIZE_MAX;
        out[count++] = (char)byte;
    }
    return count;
}
