/* UTF-8 as far as tokenizers need it beside bo_utf8_length, and the letters that stand for bytes in byte-level vocabularies. */
#ifndef BO_TEXT_UNICODE_H
#define BO_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many of the bytes are valid UTF-8, from the first on. */
size_t bo_utf8_valid(const char *text, size_t length);
/* How many bytes from the first on belong to no character. */
size_t bo_utf8_invalid(const char *text, size_t length);
bool bo_utf8_space(const char *text, size_t length,
                   size_t *bytes);                   /* does white space begin here, of how many bytes? */
bool bo_utf8_blank(const char *text, size_t length); /* nothing but white space? */
/* The control character (C0, DEL or C1) that begins here, which a terminal would obey; -1: another one does. */
int bo_utf8_control(const char *text, size_t length);
bool bo_utf8_has_control(const char *text, size_t length);

/* GPT-2's letters: a byte that prints in Latin-1 is its own, the others are U+0100, U+0101, … in order. */
enum { BO_LETTER_BYTES = 2 };
size_t bo_letter_write(unsigned char byte, char *out); /* UTF-8, 1 or 2 bytes; how many */
unsigned char bo_letter_byte(size_t place); /* the byte whose letter is at this place in the order of letters */
/* The bytes that letters stand for, at most `length` of them; SIZE_MAX: something else is among them. */
size_t bo_letters_read(const char *text, size_t length, char *out);

#endif
