/* HTML pages without external files and without scripts, for light and dark color schemes, narrow screens and print. */
#ifndef CLI_COMMON_PAGE_H
#define CLI_COMMON_PAGE_H

#include <stdio.h>

/* Writes everything before the contents. The title is `title`, which is escaped, followed by `suffix`. style:
 * additional CSS rules; NULL: none. */
void cli_page_begin(FILE *out, const char *title, const char *suffix, const char *style);
void cli_page_end(FILE *out);

#endif
