/* Numbers in text, and half precision. Nothing here depends on the locale of the host program. */
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
/* Reads a whole cell, ignoring blanks around it: a number (also inf), missing (empty, NA, NaN, null, ?), or text. */
bo_cell_kind bo_cell_read(const char *text, const char *end, double *value);
/* True if the digits are a code whose spelling matters when it is a label: leading zeros (a ZIP code 01234), or more digits
 * than a double holds, so that bo_number_format would not write them. Blanks around them are ignored. */
bool bo_is_code(const char *text, const char *end);
float bo_half_to_float(uint16_t half);

#endif
