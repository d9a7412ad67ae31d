#include "base64.h"
#include <string.h>

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void bo_base64_write(bo_json_text *out, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    char text[1024];
    size_t used = 0;
    bo_json_raw(out, "\"");
    for (size_t i = 0; i < size; i += 3) {
        const size_t count = size - i < 3 ? size - i : 3;
        unsigned word = (unsigned)from[i] << 16;
        if (count > 1) word |= (unsigned)from[i + 1] << 8;
        if (count > 2) word |= from[i + 2];
        for (size_t c = 0; c < 4; c++) text[used++] = c <= count ? ALPHABET[word >> (18 - 6 * c) & 63] : '=';
        if (used == sizeof text || i + 3 >= size) {
            bo_json_add(out, text, used);
            used = 0;
        }
    }
    bo_json_raw(out, "\"");
}

static int value_of(char character)
{
    const char *at = character ? strchr(ALPHABET, character) : NULL;
    return at ? (int)(at - ALPHABET) : -1;
}

bool bo_base64_read(const char *text, unsigned char *out, size_t *size)
{
    size_t length = strlen(text), padding = 0;
    *size = 0;
    if (length % 4) return false;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=') padding++;
    for (size_t i = 0; i < length; i += 4) {
        unsigned word = 0;
        const size_t characters = i + 4 == length ? 4 - padding : 4;
        for (size_t c = 0; c < 4; c++) {
            const int value = c < characters ? value_of(text[i + c]) : 0;
            if (value < 0) return false;
            word = word << 6 | (unsigned)value;
        }
        if (word & ((1u << (32 - 8 * characters)) - 1))
            return false; /* nonzero bits after the last byte: each byte sequence has one encoding */
        for (size_t b = 0; b + 1 < characters; b++) out[(*size)++] = (unsigned char)(word >> (16 - 8 * b));
    }
    return true;
}
