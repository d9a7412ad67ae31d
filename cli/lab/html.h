/* The page of the lab in its parts. */
#ifndef CLI_LAB_HTML_H
#define CLI_LAB_HTML_H

#include "lab.h"

typedef struct html_page {
    FILE *out;
    const cli_lab_job *lab;
    size_t missing; /* pictures that are not there */
} html_page;

extern const char cli_lab_style[];

void cli_html_text(FILE *out, const char *text); /* escaped; NULL is nothing */
void cli_html_experiment(html_page *page, const bo_lab_result *result);
void cli_html_summary_row(html_page *page, const bo_lab_result *result);

#endif
