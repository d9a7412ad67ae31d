/* UTF-8: validation, white space, and the letters that represent bytes. */
#include "unicode.h"

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

bool bo_utf8_blank(const char *text, size_t length)
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

bool bo_utf8_space(const char *text, size_t length, size_t *bytes)
{
    utf8proc_int32_t point = 0;
    *bytes = bo_utf8_length(text, length);
    if (*bytes == 0) return false;
    utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)*bytes, &point);
    if ((point >= 9 && point <= 13) || point == 0x85) return true;
    utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* ---- letters ----------------------------------------------------------------------------------------------------- */

static bool prints(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The bytes that do not print are 0 to 32, 127 to 160 and 173. */
static unsigned letter(unsigned byte)
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

size_t bo_letter_write(unsigned char byte, char *out)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)letter(byte), (utf8proc_uint8_t *)out);
}

unsigned char bo_letter_byte(size_t place)
{
    unsigned byte = 0;
    for (int pass = 1; pass >= 0; --pass) /* printing bytes first */
        for (byte = 0; byte < 256; ++byte)
            if (prints(byte) == pass && place-- == 0) return (unsigned char)byte;
    return (unsigned char)byte;
}

size_t bo_letters_read(const char *text, size_t length, char *out)
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
