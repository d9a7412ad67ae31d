/* Numbers in text, and half precision. All functions are independent of the locale of the host program. */
#ifndef BO_IO_NUMBERS_H
#define BO_IO_NUMBERS_H

#include <bochner/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BO_NUMBER_TEXT = 32 }; /* maximum bytes that bo_number_format writes */

typedef enum bo_cell_kind { BO_CELL_NUMBER, BO_CELL_MISSING, BO_CELL_TEXT } bo_cell_kind;

/* The decimal number that starts at `text`: [+-] digits [. digits] [e [+-] digits], correctly rounded (too large:
 * infinite). False if there is none. */
bool bo_number_read(const char *text, const char *end, const char **stop, double *value);
/* Reads a whole cell, ignoring whitespace around it: a number (also inf), missing (empty, NA, N/A, #N/A, <NA>, NaN,
 * null, ?), or text. */
bo_cell_kind bo_cell_read(const char *text, const char *end, double *value);
/* The number format of a file: 1234.5, 1,234.5 or 1.234,5. */
typedef struct bo_number_form {
    char decimal;  /* '.' or ',' */
    char grouping; /* between groups of three digits; 0: none */
} bo_number_form;
/* bo_cell_read for numbers of this form. */
bo_cell_kind bo_cell_read_form(const bo_number_form *form, const char *text, const char *end, double *value);
/* Counts of cells that indicate the number format of a file. `maybe` counts 1,234, which is ambiguous. */
typedef struct bo_number_signs {
    size_t comma_decimals, comma_groups, maybe_commas, point_decimals, point_groups, maybe_points;
} bo_number_signs;
void bo_number_signs_add(bo_number_signs *signs, const char *text, const char *end);
bo_number_form bo_number_form_find(const bo_number_signs *signs, char delimiter);

/* True for text that is a missing value in a column of numbers, dates or Booleans, but text in other columns and the
 * name of a class: None, -, NaN and null. Case is ignored. */
bool bo_is_missing_text(const char *text);
/* True if the text is a number whose spelling matters as a label, such as a code: leading zeros (a ZIP code 01234),
 * integers with exponents (1e5), or more digits than a double holds, which bo_number_format would not reproduce.
 * Whitespace around it is ignored. */
bool bo_is_code(const char *text, const char *end);
float bo_half_to_float(uint16_t half);

#endif
