/* Text in HTML pages and SVG plots. */
#include "html.h"

void cli_html_text(FILE *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)(text ? text : ""); *c; c++) {
        switch (*c) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            if (*c >= 0x20 || *c == '\n') fputc(*c, out);
        }
    }
}

void cli_html_element(FILE *out, const char *open, const char *text, const char *close)
{
    fputs(open, out);
    cli_html_text(out, text);
    fputs(close, out);
}
