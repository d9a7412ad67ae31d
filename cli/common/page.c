/* The common parts of HTML pages. */
#include "page.h"
#include "html.h"

/* Supports light and dark color schemes, narrow screens and print. */
static const char style[] =
    ":root{color-scheme:light "
    "dark;--paper:#fbfbf9;--card:#fff;--ink:#1d2126;--soft:#5b636d;--line:#e2e3df;--main:#1f5fa8;"
    "--down:#b3501e;--band:#cfe0f3}\n"
    "@media "
    "(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#191c20;--ink:#e3e6e9;--soft:#9aa3ad;--line:#2c3137;"
    "--main:#7fb2ea;--down:#e8a06f;--band:#22384f}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 "
    "system-ui,-apple-system,"
    "'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
    "main{max-width:860px;margin:0 auto;padding:0 18px 40px}h1{font-size:28px;margin:36px 0 6px}h2{font-size:20px;"
    "margin:40px 0 6px}p{margin:6px 0 12px}.soft{color:var(--soft);font-size:15px}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px;margin:12px 0;"
    "overflow-x:auto}.curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:14px}"
    ".curves .card{margin:0}.card h3{font-size:15px;margin:0 0 4px;overflow-wrap:anywhere}\n"
    "svg{display:block;max-width:100%;height:auto}svg text{font-size:12.5px;fill:var(--ink);"
    "font-variant-numeric:tabular-nums}svg .tick{fill:var(--soft);font-size:11.5px}svg .label{fill:var(--soft)}\n"
    ".grid{stroke:var(--line)}.bar{fill:var(--main)}.bar.down{fill:var(--down)}.bar.total{fill:var(--soft)}"
    ".whisker{stroke:var(--ink);stroke-width:1.5}.band{fill:var(--band)}.curve{fill:none;stroke:var(--main);"
    "stroke-width:2.2}.other{fill:none;stroke:var(--soft);stroke-width:1;opacity:.6}.rug{stroke:var(--soft)}"
    ".range{stroke:var(--band);stroke-width:9;stroke-linecap:round}.mark{fill:var(--main)}\n"
    "table{border-collapse:collapse;font-size:14.5px;font-variant-numeric:tabular-nums;width:100%}th{text-align:left;"
    "color:var(--soft);font-weight:600;font-size:13px}td,th{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);"
    "vertical-align:top}tr:last-child td{border-bottom:0}td.number,th.number{text-align:right;white-space:nowrap}\n"
    "@media print{body{background:#fff}.card{break-inside:avoid}}\n";

void cli_page_begin(FILE *out, const char *title, const char *suffix, const char *more)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width,initial-scale=1\">\n",
          out);
    cli_html_element(out, "<title>", title, suffix);
    fputs("</title>\n<style>\n", out);
    fputs(style, out);
    if (more) fputs(more, out);
    fputs("</style>\n</head>\n<body><main>\n", out);
}

void cli_page_end(FILE *out)
{
    fputs("</main></body>\n</html>\n", out);
}
