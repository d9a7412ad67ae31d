/* UTF-8 functions for tokenizers besides bo_utf8_length, and the characters that represent bytes in byte-level
 * vocabularies (byte-level symbols). */
#ifndef BO_TEXT_UNICODE_H
#define BO_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of leading bytes that are valid UTF-8. */
size_t bo_utf8_valid(const char *text, size_t length);
/* Number of leading bytes that are not part of a valid character. */
size_t bo_utf8_invalid(const char *text, size_t length);
bool bo_utf8_space(const char *text, size_t length,
                   size_t *bytes); /* true if the text starts with white space; its number of bytes */
bool bo_utf8_is_space_only(const char *text, size_t length); /* true if the text is all white space */
/* The control character (C0, DEL or C1) at the start of the text, which a terminal would interpret; -1: another
 * character. */
int bo_utf8_control(const char *text, size_t length);
bool bo_utf8_has_control(const char *text, size_t length);

/* The position of the first character that has a stand-in (unicode_tables.h); `length` if there is none. If `out` is
 * not NULL, replaces all of them in it; it has the same bytes as the text or is the text. */
size_t bo_utf8_stand_in(const char *text, size_t length, char *out);
/* The code point of a character of `bytes` bytes (bo_utf8_length). */
uint32_t bo_utf8_point(const char *text, size_t bytes);
bool bo_point_space(uint32_t point); /* White_Space */

/* Byte-level symbols (GPT-2's bytes_to_unicode): a printable byte of Latin-1 represents itself; the other bytes are
 * U+0100, U+0101, … in order. */
enum { BO_BYTE_LEVEL_SIZE = 2 };
size_t bo_byte_level_write(unsigned char byte, char *out); /* writes UTF-8 of 1 or 2 bytes and returns their number */
unsigned char bo_byte_level_byte(size_t place); /* the byte at this position in the order of byte-level symbols */
/* Converts byte-level symbols to at most `length` bytes. SIZE_MAX: the text contains other characters. */
size_t bo_byte_level_read(const char *text, size_t length, char *out);

#endif
