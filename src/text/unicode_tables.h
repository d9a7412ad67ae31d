/* Sets of code points in the Unicode versions of the package `tokenizers`, which differ from the versions of utf8proc
 * and PCRE2. */
#ifndef BO_TEXT_UNICODE_TABLES_H
#define BO_TEXT_UNICODE_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bo_span {
    uint32_t first, last;
} bo_span;

typedef struct bo_case {
    uint32_t upper, lower;
} bo_case;

/* While an expression is matched, `point` takes the place of the characters first to last. */
typedef struct bo_stand_in {
    uint32_t first, last, point;
} bo_stand_in;

typedef enum bo_char_set {
    BO_CHARS_NUMERIC,     /* category N */
    BO_CHARS_PUNCTUATION, /* ASCII punctuation and category P */
    BO_CHARS_MARK,        /* category M */
    BO_CHARS_NONSPACING,  /* category Mn */
    BO_CHARS_OTHER,       /* removed by the BertNormalizer */
    BO_CHARS_INERT,       /* normalization forms do not change these */
    BO_CHARS_COUNT
} bo_char_set;

bool bo_char_in(bo_char_set set, uint32_t point);
/* The lower case of characters that utf8proc does not know; 0: another character. */
uint32_t bo_char_lower(uint32_t point);
/* 0: the character stands for itself. */
uint32_t bo_char_stand_in(uint32_t point);

#endif
