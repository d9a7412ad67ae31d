/* Human-readable formatting: counts, sizes, times, wrapped text, and the nearest match of a mistyped name. */
#ifndef CLI_COMMON_FORMAT_H
#define CLI_COMMON_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Short strings are returned by value, so that several fit in one printf: cli_count(n).s */
typedef struct cli_short_text {
    char s[48];
} cli_short_text;

cli_short_text cli_count(size_t n);                       /* 60,000 */
cli_short_text cli_bytes(double bytes);                   /* 188 MB */
cli_short_text cli_seconds(double seconds);               /* 0.83 s, 2 min 05 s */
cli_short_text cli_significant(double value, int digits); /* 0.0123 */
cli_short_text cli_quantity(double value, int digits);    /* with thousands separators: 53,010 */
cli_short_text cli_exact(double value); /* shortest of 15, 16 and 17 digits that parses as the same value */

/* The name nearest to `word` among `count` candidates, which `name_at` returns; NULL if all differ by more than a few
 * edits. */
const char *cli_nearest(const char *word, size_t count, const char *(*name_at)(const void *items, size_t index),
                        const void *items);

size_t cli_display_width(const char *text); /* columns of UTF-8 text on a terminal */

/* Copies text for a table or a plot to out[0, size): control characters and bytes that are not UTF-8 become ?. The text
 * is truncated at a character boundary. */
void cli_clean(const char *text, char *out, size_t size);

/* Prints an argument for a shell, in quotes if the shell would split or expand it. */
void cli_print_shell_quoted(FILE *out, const char *word);
/* Returns it as a string, freed with free. */
char *cli_shell_quoted(const char *word);

/* The width for text written to `out`. For a terminal its width, or $COLUMNS if it reports no width, or 80; for other
 * streams 80, so that files do not depend on the terminal. At least 20. */
int cli_columns(FILE *out);

typedef struct cli_wrap {
    int width;        /* columns */
    int column;       /* current column of the cursor */
    int indent;       /* indent of the lines after the first */
    bool command;     /* keeps quoted or bracketed text, and an option with its value, on one line */
    const char *join; /* printed at the end of each continued line, such as " \\"; NULL: nothing */
} cli_wrap;
/* Writes the text and a newline. Lines break at runs of spaces; other runs of spaces are kept. A word wider than a line
 * is not broken. A newline in the text ends a line. */
void cli_wrap_text(FILE *out, const char *text, cli_wrap wrap);

/* The same for cli_columns, at most 100 columns; the cursor is at the indent. */
void cli_print_wrapped(FILE *out, const char *text, int indent);

/* calloc that exits with a message and status 1 if memory is exhausted; `what` names the purpose. */
void *cli_allocate(size_t count, size_t size, const char *what);

double cli_now(void); /* seconds of a monotonic clock */

#endif
