/* Text in HTML pages and SVG plots. */
#ifndef CLI_COMMON_HTML_H
#define CLI_COMMON_HTML_H

#include <stdio.h>

/* Escapes text and drops control characters except newlines. Names in files are not trusted, so all text is written
 * through this function. NULL: nothing. */
void cli_html_text(FILE *out, const char *text);
/* Writes an element that contains text. */
void cli_html_element(FILE *out, const char *open, const char *text, const char *close);

#endif
