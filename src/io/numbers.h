/* Numbers in text, and small number formats. Nothing here depends on the locale of the host program. */
#ifndef BO_IO_NUMBERS_H
#define BO_IO_NUMBERS_H

#include <bochner/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BO_NUMBER_TEXT = 32 }; /* bytes that bo_number_format needs at most */

typedef enum bo_cell_kind { BO_CELL_NUMBER, BO_CELL_MISSING, BO_CELL_TEXT } bo_cell_kind;

/* The decimal number that starts at `text`: [+-] digits [. digits] [e [+-] digits], correctly rounded (too large:
 * infinite). False when none does. */
bool bo_number_read(const char *text, const char *end, const char **stop, double *value);
/* A whole cell without the blanks around it: a number (also inf), missing (empty, NA, NaN, null, ?), or text. */
bo_cell_kind bo_cell_read(const char *text, const char *end, double *value);
float bo_half_to_float(uint16_t half);

#endif
