/* The report as one page: nothing outside of it is needed, and nothing in it runs. */
#include "html.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Names in result files may be anybody's: every text goes through here. */
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

/* 1.2e-05 is set as people write it. */
static void put_number(FILE *out, double value)
{
    const cli_word word = cli_lab_number(value);
    const bool negative = word.s[0] == '-';
    const char *digits = word.s + negative, *e = strchr(digits, 'e');
    const int length = e ? (int)(e - digits) : (int)strlen(digits), power = e ? atoi(e + 1) : 0;
    fprintf(out, "<span class=\"nb\">%s%.*s", negative ? "−" : "", length, digits);
    if (e) fprintf(out, "×10<sup>%s%d</sup>", power < 0 ? "−" : "", abs(power));
    fputs("</span>", out);
}

static const char *class_of(bo_lab_verdict verdict)
{
    return verdict == BO_LAB_HELD ? "held" : verdict == BO_LAB_NOT_HELD ? "not" : "open";
}

static void put_badge(FILE *out, bo_lab_verdict verdict)
{
    fprintf(out, "<span class=\"badge %s\">%s</span>", class_of(verdict), bo_lab_verdict_name(verdict));
}

/* An element with a text in it. */
static void put_element(FILE *out, const char *open, const char *text, const char *close)
{
    fputs(open, out);
    cli_html_text(out, text);
    fputs(close, out);
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void put_claim(FILE *out, const bo_lab_outcome *o, size_t seeds)
{
    put_element(out, "<tr><td>", o->claim->statement, "");
    put_element(out, "<span class=\"what\">Number: ", o->claim->number, "</span>");
    if (o->claim->source) put_element(out, "<span class=\"what\">From: ", o->claim->source, "</span>");
    fputs("</td><td data-label=\"Mean\">", out);
    put_number(out, o->mean);
    fprintf(out, "</td><td data-label=\"%s\">", cli_lab_interval_kind(o, seeds));
    if (isnan(o->low)) {
        fputs("–", out);
    } else {
        put_number(out, o->low);
        fputs(" to ", out);
        put_number(out, o->high);
    }
    cli_lab_strip(out, o, seeds);
    if (seeds > 1 && cli_lab_interval_kind(o, seeds) != cli_lab_interval_usual)
        fprintf(out, "<span class=\"what wide\">%s</span>", cli_lab_interval_kind(o, seeds));
    fprintf(out, "</td><td data-label=\"Claimed\">%s ", bo_lab_rule_name(o->claim->rule));
    put_number(out, o->claim->bound);
    if (o->claim->rule == BO_LAB_BETWEEN) {
        fputs(" and ", out);
        put_number(out, o->claim->upper);
    }
    fputs("</td><td>", out);
    put_badge(out, o->verdict);
    fputs("</td></tr>\n", out);
}

static void put_claims(FILE *out, const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    fprintf(out,
            "<div class=\"scroll\"><table class=\"claims\"><thead><tr><th>Claim</th><th>Mean</th><th>%s</th>"
            "<th>Claimed</th><th>Verdict</th></tr></thead><tbody>\n",
            about.seeds > 1 ? cli_lab_interval_usual : "Of one seed");
    for (size_t i = 0; i < about.experiment->claim_count; i++) {
        const bo_lab_outcome outcome = bo_lab_result_claim(result, i);
        put_claim(out, &outcome, about.seeds);
    }
    fputs("</tbody></table></div>\n", out);
}

/* ---- tables and pictures --------------------------------------------------------------------- */

static void put_cell(FILE *out, const bo_lab_cell *cell, bool theory)
{
    fputs(theory ? "<td class=\"theory\">" : "<td>", out);
    if (cell->count) put_number(out, cell->mean);
    if (cell->count && cell->deviation > 0)
        fprintf(out, " <span class=\"dev\">± %s</span>", cli_significant(cell->deviation, 2).s);
    fputs("</td>", out);
}

static void put_table(FILE *out, const bo_lab_grid *grid)
{
    const bo_lab_table *t = grid->table;
    put_element(out, "<p class=\"small\">", t->values, "");
    fputs("; mean ± deviation over the seeds</p>\n<div class=\"scroll\"><table class=\"numbers\"><thead><tr>", out);
    put_element(out, grid->numbers ? "<th>" : "<th class=\"word\">", t->rows, "</th>");
    for (size_t c = 0; c < grid->columns; c++) put_element(out, "<th>", grid->column_names[c], "</th>");
    fputs("</tr></thead><tbody>\n", out);
    for (size_t r = 0; r < grid->rows; r++) {
        put_element(out, grid->numbers ? "<tr><td>" : "<tr><td class=\"word\">", grid->row_names[r], "</td>");
        for (size_t c = 0; c < grid->columns; c++)
            put_cell(out, &grid->cells[r * grid->columns + c],
                     t->theory && strcmp(t->theory, grid->column_names[c]) == 0);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* Inside an image no script of a picture runs, whoever made the file. */
static void put_base64(FILE *out, FILE *file)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char b[3];
    for (size_t got; (got = fread(b, 1, 3, file)) > 0;) {
        if (got < 3) b[2] = 0;
        if (got < 2) b[1] = 0;
        const unsigned long bits = (unsigned long)b[0] << 16 | (unsigned long)b[1] << 8 | b[2];
        for (size_t i = 0; i < 4; i++) fputc(i <= got ? digits[bits >> (18 - 6 * i) & 63] : '=', out);
    }
}

/* A picture older than its numbers is of others. */
static FILE *open_picture(const cli_lab_job *lab, const bo_lab_experiment *e, const bo_lab_table *table)
{
    char *path = cli_lab_file(lab, e, table), *numbers = cli_lab_file(lab, e, NULL);
    struct stat drawn, written;
    const bool fits =
        stat(path, &drawn) == 0 && stat(numbers, &written) == 0 && S_ISREG(drawn.st_mode) &&
        (drawn.st_mtim.tv_sec > written.st_mtim.tv_sec ||
         (drawn.st_mtim.tv_sec == written.st_mtim.tv_sec && drawn.st_mtim.tv_nsec >= written.st_mtim.tv_nsec));
    FILE *file = fits ? fopen(path, "rb") : NULL;
    free(path);
    free(numbers);
    return file;
}

static void put_figure(html_page *page, const bo_lab_experiment *e, const bo_lab_grid *grid)
{
    FILE *out = page->out, *file = open_picture(page->lab, e, grid->table);
    fputs("<figure class=\"figure\">", out);
    if (file) {
        put_element(out, "<img alt=\"", grid->table->title, "\" src=\"data:image/svg+xml;base64,");
        put_base64(out, file);
        fputs("\">\n", out);
        fclose(file);
    } else {
        page->missing++;
        put_element(out, "<div class=\"gone\">", grid->table->title, ": ");
        fprintf(out, "the picture <code>%s-%s.svg</code> is missing; gnuplot draws it</div>\n", e->name,
                grid->table->name);
    }
    put_element(out, "<details><summary>Numbers: ", grid->table->title, "</summary>\n");
    put_table(out, grid);
    fputs("</details></figure>\n", out);
}

static void put_tables(html_page *page, const bo_lab_result *result)
{
    const bo_lab_experiment *e = bo_lab_result_about(result).experiment;
    fputs("<div class=\"figures\">\n", page->out);
    for (size_t i = 0; i < e->table_count; i++) {
        const bo_lab_grid grid = bo_lab_result_table(result, i);
        if (cli_lab_has_picture(&grid)) put_figure(page, e, &grid);
    }
    fputs("</div>\n", page->out);
    for (size_t i = 0; i < e->table_count; i++) {
        const bo_lab_grid grid = bo_lab_result_table(result, i);
        if (cli_lab_has_picture(&grid) || !grid.rows) continue;
        put_element(page->out, "<h4>", grid.table->title, "</h4>\n");
        put_table(page->out, &grid);
    }
}

/* ---- an experiment --------------------------------------------------------------------------- */

static void put_words(FILE *out, cli_lab_say_fn say, const bo_lab_about *about)
{
    char *text = cli_lab_words(say, about);
    cli_html_text(out, text);
    free(text);
}

void cli_html_experiment(html_page *page, const bo_lab_result *result)
{
    FILE *out = page->out;
    const bo_lab_about about = bo_lab_result_about(result);
    const bo_lab_experiment *e = about.experiment;
    fprintf(out, "<article id=\"%s\">\n<div class=\"head\"><div><h3><a href=\"#%s\">", e->name, e->name);
    put_element(out, "", e->title, "</a></h3>");
    fprintf(out, "<code class=\"name\">%s</code></div>", e->name);
    put_badge(out, bo_lab_result_verdict(result));
    put_element(out, "</div>\n<p class=\"says\">", e->claim, "</p>\n");
    if (e->source) put_element(out, "<p class=\"small\">From: ", e->source, "</p>\n");
    if (e->method) put_element(out, "<p><strong>Method.</strong> ", e->method, "</p>\n");
    put_claims(out, result);
    put_tables(page, result);
    if (bo_lab_result_notes(result)) fputs("<h4>Notes</h4><ul>\n", out);
    for (size_t i = 0; i < bo_lab_result_notes(result); i++)
        put_element(out, "<li>", bo_lab_result_note(result, i), "</li>\n");
    if (bo_lab_result_notes(result)) fputs("</ul>\n", out);
    fputs("<h4>To repeat it</h4><pre><code>", out);
    put_words(out, cli_lab_command, &about);
    fputs("</code></pre>\n<p class=\"meta\">", out);
    put_words(out, cli_lab_setting, &about);
    fputs(" · <a class=\"jump\" href=\"#top\">to the top</a></p>\n</article>\n", out);
}

/* ---- the summary ----------------------------------------------------------------------------- */

static void put_dots(FILE *out, const bo_lab_result *result)
{
    const bo_lab_experiment *e = bo_lab_result_about(result).experiment;
    fputs("<td class=\"dots\">", out);
    for (size_t i = 0; i < e->claim_count; i++) {
        const bo_lab_outcome o = bo_lab_result_claim(result, i);
        fprintf(out, "<span class=\"dot %s\" title=\"%s: ", class_of(o.verdict), bo_lab_verdict_name(o.verdict));
        put_element(out, "", o.claim->statement, "\"></span>");
    }
    fputs("</td>", out);
}

void cli_html_summary_row(html_page *page, const bo_lab_result *result)
{
    FILE *out = page->out;
    const bo_lab_about about = bo_lab_result_about(result);
    fprintf(out, "<tr><td><a href=\"#%s\">", about.experiment->name);
    put_element(out, "", about.experiment->title, "</a></td>");
    put_dots(out, result);
    fputs("<td>", out);
    put_badge(out, bo_lab_result_verdict(result));
    fprintf(out, "</td><td class=\"num wide\">%zu%s</td><td class=\"num wide\">%s</td></tr>\n", about.seeds,
            about.quick ? ", quick" : "", cli_seconds(about.seconds).s);
}
