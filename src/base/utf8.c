/* UTF-8 as defined by RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
#include <bochner/base.h>

size_t bo_utf8_length(const char *text, size_t length)
{
    const unsigned char *byte = (const unsigned char *)text;
    if (!text || length == 0) return 0;
    if (byte[0] < 0x80) return 1;
    const size_t bytes = byte[0] < 0xc2 ? 0 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : byte[0] < 0xf5 ? 4 : 0;
    if (bytes == 0 || bytes > length) return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((byte[i] & 0xc0) != 0x80) return 0;
    if ((byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] > 0x9f))
        return 0; /* overlong; a surrogate */
    if ((byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] > 0x8f)) return 0; /* overlong; too large */
    return bytes;
}
