/* The report as one HTML page without external files and without scripts. */
#include "lab.h"
#include "../common/html.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- style ------------------------------------------------------------------------------------------------------- */

/* Supports light and dark color schemes and narrow screens. The style is split because ISO C limits the length of a
 * string. */
static const char *const page_style[] = {
    ":root{color-scheme:light "
    "dark;--paper:#fbfbf9;--card:#fff;--ink:#1d2126;--soft:#5b636d;--line:#e2e3df;--accent:#1f5fa8;"
    "--held:#1d7a3d;--held-bg:#e2f3e7;--not:#b3261e;--not-bg:#fbe5e3;--open:#6a6f76;--open-bg:#ecedef;--shade:#dfeaf6}"
    "\n"
    "@media "
    "(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#191c20;--ink:#e3e6e9;--soft:#9aa3ad;--line:#2c3137;"
    "--accent:#7fb2ea;--held:#76cf93;--held-bg:#16301f;--not:#f2928b;--not-bg:#3a1c1a;--open:#a9b0b8;--open-bg:#2a2f35;"
    "--shade:#1d3147}\n"
    ".figure img{filter:invert(.9) hue-rotate(180deg)}}\n"
    "*{box-sizing:border-box}html{-webkit-text-size-adjust:100%}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:17px/1.55 Charter,'Bitstream Charter','Source Serif "
    "Pro',Cambria,Georgia,serif}\n"
    "header,main,nav,body>footer{max-width:1080px;margin:0 auto;padding:0 20px}\n"
    "h1,h2,h3,h4,table,code,.badge,.tiles,.tally,.legend,.meta,figcaption,summary,.jump{"
    "font-family:system-ui,-apple-system,'Segoe "
    "UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
    "h1{font-size:34px;line-height:1.2;margin:44px 0 8px;letter-spacing:-.01em}\n"
    "h2{font-size:24px;margin:56px 0 12px;padding-bottom:8px;border-bottom:2px solid var(--line)}\n"
    "h3{font-size:20px;line-height:1.3;margin:0}h3 a{color:inherit;text-decoration:none}h3 "
    "a:hover{text-decoration:underline}\n"
    "h4{font-size:13px;margin:24px 0 6px;text-transform:uppercase;letter-spacing:.06em;color:var(--soft)}\n"
    "a{color:var(--accent)}p{margin:10px 0}.lead{font-size:18px;margin:0 0 22px}\n"
    ".small{font-size:15px;color:var(--soft)}code{font-size:.86em;overflow-wrap:anywhere}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0}.tile{flex:1 1 130px;background:var(--card);border:1px "
    "solid "
    "var(--line);border-radius:10px;padding:12px 16px}\n"
    ".tile b{display:block;font-size:30px;line-height:1.15;font-variant-numeric:tabular-nums}.tile "
    "span{font-size:14px;color:var(--soft)}\n"
    ".tile.held b{color:var(--held)}.tile.not b{color:var(--not)}.tile.open b{color:var(--open)}\n"
    ".badge{display:inline-block;font-size:13px;font-weight:600;line-height:1.6;padding:0 "
    "9px;border-radius:20px;white-space:nowrap}\n"
    ".badge.held{color:var(--held);background:var(--held-bg)}.badge.not{color:var(--not);background:var(--not-bg)}"
    ".badge.open{color:var(--open);background:var(--open-bg)}\n"
    "article{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:22px "
    "26px;margin:22px 0;scroll-margin-top:12px}\n"
    ".head{display:flex;justify-content:space-between;align-items:flex-start;gap:16px}.name{color:var(--soft);font-"
    "size:14px}\n"
    ".says{font-size:18px;margin:10px 0 4px}\n"
    ".scroll{overflow-x:auto;-webkit-overflow-scrolling:touch;margin:8px 0}\n",
    "table{border-collapse:collapse;font-size:14.5px;line-height:1.4;width:100%;font-variant-numeric:tabular-nums}\n"
    "th{font-weight:600;font-size:13px;color:var(--soft);text-align:left;border-bottom:1px solid "
    "var(--line);padding:6px "
    "12px 6px 0;vertical-align:bottom}\n"
    "td{border-bottom:1px solid var(--line);padding:8px 12px 8px "
    "0;vertical-align:top}tr:last-child>td{border-bottom:0}\n"
    ".numbers{width:auto;min-width:50%}.numbers td,.numbers th{text-align:right;padding:4px 0 4px "
    "22px;white-space:nowrap}.numbers th:first-child,.numbers td:first-child{padding-left:0}\n"
    ".numbers "
    ".word{text-align:left}.dev{color:var(--soft);font-size:12.5px}.theory{color:var(--soft);font-style:italic}\n"
    ".claims td:first-child{width:42%}.claims "
    "td:nth-child(3){min-width:164px}.nb{white-space:nowrap}.what{display:block;color:var(--soft);font-size:13.5px;"
    "margin-top:2px}.num{white-space:nowrap}\n"
    ".strip{display:block;margin-top:4px;border-radius:4px;background:var(--open-bg);max-width:100%}.strip "
    ".side{fill:var(--shade)}.strip .bound{stroke:var(--accent);stroke-width:1.5;fill:none;stroke-dasharray:3 2}\n"
    ".strip .interval{stroke:var(--ink);stroke-width:1.6}.strip .mean{stroke:var(--ink);stroke-width:2}.strip "
    ".seed{fill:var(--soft);opacity:.55}\n"
    ".dots{font-size:0;line-height:16px;min-width:80px;padding-top:12px}.dot{display:inline-block;width:11px;height:"
    "11px;border-radius:50%;margin-"
    "right:4px}"
    ".dot.held{background:var(--held)}.dot.not{background:var(--not);border-radius:1px;transform:rotate(45deg) "
    "scale(.84)}.dot.open{background:none;border:2px solid var(--open)}\n"
    ".tally{font-size:14.5px;white-space:nowrap}.tally b{font-weight:600}.tally .rest{display:block;font-size:13px;"
    "color:var(--soft)}.head .tally{text-align:right;flex:none}\n"
    ".legend{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 18px;margin:20px 0;"
    "font-size:14.5px;line-height:1.45}.legend h2{font-size:15px;margin:0 0 8px;padding:0;border:0}\n"
    ".key{display:grid;grid-template-columns:auto 1fr;gap:5px 12px;margin:0;align-items:baseline}.key dt,.key "
    "dd{margin:0}.key .dot{margin:0}.eg{display:flex;gap:6px 14px;align-items:center;margin-top:10px}.eg "
    ".strip{flex:none;margin:0}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:18px;margin:14px 0}\n"
    ".figure{margin:0;min-width:0}.figure img{display:block;width:100%;height:auto;border:1px solid "
    "var(--line);border-radius:8px;background:#fff}\n"
    ".gone{border:1px dashed var(--line);border-radius:8px;padding:18px;color:var(--soft);font-size:15px}\n"
    "details{margin:8px 0}summary{cursor:pointer;font-size:14px;color:var(--accent)}\n"
    "pre{background:var(--open-bg);border-radius:8px;padding:10px 14px;overflow-x:auto;font-size:14px;margin:8px "
    "0}.meta{font-size:13.5px;color:var(--soft);margin:4px 0 0}\n"
    "ul{padding-left:22px;margin:8px 0}.group "
    "td{padding-top:20px;font-weight:600;color:var(--ink)}.jump{font-size:13px}\n"
    "body>footer{margin:50px auto;color:var(--soft);font-size:15px}\n"
    "@media (max-width:640px){body{font-size:16px}h1{font-size:28px}article{padding:16px "
    "14px;border-radius:8px}header,main,nav,body>footer{padding:0 12px}.says{font-size:17px}\n"
    ".claims thead{display:none}.claims tr{display:block;border-bottom:1px solid var(--line);padding:8px 0}.claims "
    "td{display:block;border:0;padding:3px 0}.claims td[data-label]:before{content:attr(data-label) ': "
    "';color:var(--soft)}\n"
    ".head{flex-direction:column;gap:8px}.head .tally{text-align:left}.eg{flex-wrap:wrap}.tally{white-space:normal}\n"
    ".claims tr:last-child{border-bottom:0}.claims "
    "td:first-child{width:auto}.wide{display:none!important}.tile{flex-basis:40%}}\n"
    "@media print{article{break-inside:avoid-page;border:0;padding:0}body{background:#fff}}\n"};

/* ---- strips: the values of a claim as a small plot --------------------------------------------------------------- */

enum { WIDTH = 150, HEIGHT = 22, EDGE = 6 };

typedef struct scale {
    double low, high;
} scale;

static double at(const scale *s, double value)
{
    const double x = EDGE + (value - s->low) / (s->high - s->low) * (WIDTH - 2 * EDGE);
    return fmin(fmax(x, 1), WIDTH - 1);
}

static void include(scale *s, double value)
{
    if (!isfinite(value)) return;
    s->low = fmin(s->low, value);
    s->high = fmax(s->high, value);
}

static scale scale_of(const bo_lab_outcome *o, size_t seeds)
{
    scale s = {INFINITY, -INFINITY};
    include(&s, o->claim->bound);
    if (o->claim->rule == BO_LAB_BETWEEN) include(&s, o->claim->upper);
    include(&s, o->low);
    include(&s, o->high);
    for (size_t i = 0; i < seeds; i++) include(&s, o->values[i]);
    const double margin = s.high > s.low ? 0.12 * (s.high - s.low) : 1;
    return (scale){s.low - margin, s.high + margin};
}

static void claimed_side(FILE *out, const scale *s, const bo_lab_claim *claim)
{
    const bool up = claim->rule == BO_LAB_AT_LEAST || claim->rule == BO_LAB_EACH_AT_LEAST;
    const bool between = claim->rule == BO_LAB_BETWEEN;
    const double from = up || between ? at(s, claim->bound) : 0;
    const double to = between ? at(s, claim->upper) : up ? WIDTH : at(s, claim->bound);
    fprintf(out, "<rect class=\"side\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>", from, to - from, HEIGHT);
    fprintf(out, "<path class=\"bound\" d=\"M%.1f 0V%d", at(s, claim->bound), HEIGHT);
    if (between) fprintf(out, "M%.1f 0V%d", at(s, claim->upper), HEIGHT);
    fputs("\"/>", out);
}

/* Draws the claimed side of the bound, the value of each seed, and the interval, as SVG. */
static void write_strip(FILE *out, const bo_lab_outcome *o, size_t seeds)
{
    const scale s = scale_of(o, seeds);
    const double middle = 8, below = 17; /* the interval, and the seeds under it */
    fprintf(out, "<svg class=\"strip\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" aria-hidden=\"true\">", WIDTH,
            HEIGHT, WIDTH, HEIGHT);
    claimed_side(out, &s, o->claim);
    for (size_t i = 0; i < seeds; i++)
        if (isfinite(o->values[i]))
            fprintf(out, "<circle class=\"seed\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.2\"/>", at(&s, o->values[i]), below);
    if (isfinite(o->low) && isfinite(o->high))
        fprintf(out, "<path class=\"interval\" d=\"M%.1f %.1fH%.1f\"/>", at(&s, o->low), middle, at(&s, o->high));
    if (isfinite(o->mean))
        fprintf(out, "<path class=\"mean\" d=\"M%.1f %.1fV%.1f\"/>", at(&s, o->mean), middle - 5, middle + 5);
    fputs("</svg>", out);
}

typedef struct html_page {
    FILE *out;
    const cli_lab_job *lab;
    size_t missing; /* number of missing plots */
} html_page;

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* Writes 1.2e-05 as 1.2×10⁻⁵. */
static void write_number(FILE *out, double value)
{
    const cli_short_text word = cli_lab_number(value);
    const bool negative = word.s[0] == '-';
    const char *digits = word.s + negative, *e = strchr(digits, 'e');
    const int length = e ? (int)(e - digits) : (int)strlen(digits), power = e ? atoi(e + 1) : 0;
    fprintf(out, "<span class=\"nb\">%s%.*s", negative ? "−" : "", length, digits);
    if (e) fprintf(out, "×10<sup>%s%d</sup>", power < 0 ? "−" : "", abs(power));
    fputs("</span>", out);
}

static const char *class_of(bo_lab_verdict verdict)
{
    return verdict == BO_LAB_HELD ? "held" : verdict == BO_LAB_FAILED ? "not" : "open";
}

static void write_badge(FILE *out, bo_lab_verdict verdict)
{
    fprintf(out, "<span class=\"badge %s\">%s</span>", class_of(verdict), bo_lab_verdict_name(verdict));
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static void write_claim(FILE *out, const bo_lab_outcome *o, size_t seeds)
{
    cli_html_element(out, "<tr><td>", o->claim->statement, "");
    cli_html_element(out, "<span class=\"what\">Measured: ", o->claim->number, "</span>");
    if (o->claim->passage) cli_html_element(out, "<span class=\"what\">As written: ", o->claim->passage, "</span>");
    if (o->claim->source) cli_html_element(out, "<span class=\"what\">Source: ", o->claim->source, "</span>");
    fputs("</td><td data-label=\"Mean\">", out);
    write_number(out, o->mean);
    fprintf(out, "</td><td data-label=\"%s\">", cli_lab_interval_kind(o, seeds));
    if (isnan(o->low)) {
        fputs("–", out);
    } else {
        write_number(out, o->low);
        fputs(" to ", out);
        write_number(out, o->high);
    }
    write_strip(out, o, seeds);
    if (seeds > 1 && cli_lab_interval_kind(o, seeds) != cli_lab_interval_default)
        fprintf(out, "<span class=\"what wide\">%s</span>", cli_lab_interval_kind(o, seeds));
    fprintf(out, "</td><td data-label=\"Bound\">%s ", bo_lab_rule_name(o->claim->rule));
    write_number(out, o->claim->bound);
    if (o->claim->rule == BO_LAB_BETWEEN) {
        fputs(" and ", out);
        write_number(out, o->claim->upper);
    }
    fputs("</td><td>", out);
    write_badge(out, o->verdict);
    fputs("</td></tr>\n", out);
}

static void write_claims(FILE *out, const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    fprintf(out,
            "<div class=\"scroll\"><table class=\"claims\"><thead><tr><th>Claim</th><th>Mean</th><th>%s</th>"
            "<th>Bound</th><th>Verdict</th></tr></thead><tbody>\n",
            about.seeds > 1 ? cli_lab_interval_default : "One seed");
    for (size_t i = 0; i < about.experiment->claim_count; i++) {
        const bo_lab_outcome outcome = bo_lab_result_claim(result, i);
        write_claim(out, &outcome, about.seeds);
    }
    fputs("</tbody></table></div>\n", out);
}

/* ---- tables and plots -------------------------------------------------------------------------------------------- */

static void write_cell(FILE *out, const bo_lab_cell *cell, bool theory)
{
    fputs(theory ? "<td class=\"theory\">" : "<td>", out);
    if (cell->count) write_number(out, cell->mean);
    if (cell->count && cell->deviation > 0)
        fprintf(out, " <span class=\"dev\">± %s</span>", cli_significant(cell->deviation, 2).s);
    fputs("</td>", out);
}

static void write_table(FILE *out, const bo_lab_grid *grid)
{
    const bo_lab_table *t = grid->table;
    cli_html_element(out, "<p class=\"small\">", t->values, "");
    fputs("; mean ± standard deviation over the seeds</p>\n<div class=\"scroll\"><table class=\"numbers\"><thead><tr>",
          out);
    cli_html_element(out, grid->numbers ? "<th>" : "<th class=\"word\">", t->rows, "</th>");
    for (size_t c = 0; c < grid->columns; c++) cli_html_element(out, "<th>", grid->column_names[c], "</th>");
    fputs("</tr></thead><tbody>\n", out);
    for (size_t r = 0; r < grid->rows; r++) {
        cli_html_element(out, grid->numbers ? "<tr><td>" : "<tr><td class=\"word\">", grid->row_names[r], "</td>");
        for (size_t c = 0; c < grid->columns; c++)
            write_cell(out, &grid->cells[r * grid->columns + c],
                       t->theory && strcmp(t->theory, grid->column_names[c]) == 0);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* Embeds the plot as an image, so that scripts in the file cannot run. */
static void write_base64(FILE *out, FILE *file)
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

/* Opens a plot unless it is older than the result file. */
static FILE *open_plot(const cli_lab_job *lab, const bo_lab_experiment *e, const bo_lab_table *table)
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

static void write_plot(html_page *page, const bo_lab_experiment *e, const bo_lab_grid *grid)
{
    FILE *out = page->out, *file = open_plot(page->lab, e, grid->table);
    fputs("<figure class=\"figure\">", out);
    if (file) {
        cli_html_element(out, "<img alt=\"", grid->table->title, "\" src=\"data:image/svg+xml;base64,");
        write_base64(out, file);
        fputs("\">\n", out);
        fclose(file);
    } else {
        page->missing++;
        cli_html_element(out, "<div class=\"gone\">", grid->table->title, ": ");
        fprintf(out, "the plot <code>%s-%s.svg</code> is missing (install gnuplot and run the report again)</div>\n",
                e->name, grid->table->name);
    }
    cli_html_element(out, "<details><summary>Table: ", grid->table->title, "</summary>\n");
    write_table(out, grid);
    fputs("</details></figure>\n", out);
}

static void write_tables(html_page *page, const bo_lab_result *result)
{
    const bo_lab_experiment *e = bo_lab_result_about(result).experiment;
    fputs("<div class=\"figures\">\n", page->out);
    for (size_t i = 0; i < e->table_count; i++) {
        const bo_lab_grid grid = bo_lab_result_table(result, i);
        if (cli_lab_has_plot(&grid)) write_plot(page, e, &grid);
    }
    fputs("</div>\n", page->out);
    for (size_t i = 0; i < e->table_count; i++) {
        const bo_lab_grid grid = bo_lab_result_table(result, i);
        if (cli_lab_has_plot(&grid) || !grid.rows) continue;
        cli_html_element(page->out, "<h4>", grid.table->title, "</h4>\n");
        write_table(page->out, &grid);
    }
}

/* ---- experiments ------------------------------------------------------------------------------------------------- */

static void write_string(FILE *out, cli_lab_print_fn print, const bo_lab_about *about)
{
    char *text = cli_lab_string(print, about);
    cli_html_text(out, text);
    free(text);
}

/* "6 of 8 claims held", and the numbers of other verdicts. */
static void write_tally(FILE *out, const bo_lab_result *result)
{
    const size_t open = bo_lab_result_count(result, BO_LAB_INCONCLUSIVE);
    const size_t failed = bo_lab_result_count(result, BO_LAB_FAILED);
    const size_t all = bo_lab_result_about(result).experiment->claim_count;
    fprintf(out, "<div class=\"tally\"><b>%zu of %zu claim%s held</b>", bo_lab_result_count(result, BO_LAB_HELD), all,
            all == 1 ? "" : "s");
    if (open || failed) fputs("<span class=\"rest\">", out);
    if (open) fprintf(out, "%zu inconclusive", open);
    if (failed) fprintf(out, "%s%zu failed", open ? ", " : "", failed);
    fputs(open || failed ? "</span></div>" : "</div>", out);
}

static void write_experiment(html_page *page, const bo_lab_result *result)
{
    FILE *out = page->out;
    const bo_lab_about about = bo_lab_result_about(result);
    const bo_lab_experiment *e = about.experiment;
    fprintf(out, "<article id=\"%s\">\n<div class=\"head\"><div><h3><a href=\"#%s\">", e->name, e->name);
    cli_html_element(out, "", e->title, "</a></h3>");
    fprintf(out, "<code class=\"name\">%s</code></div>", e->name);
    write_tally(out, result);
    cli_html_element(out, "</div>\n<p class=\"says\">", e->claim, "</p>\n");
    if (e->source) cli_html_element(out, "<p class=\"small\">Source: ", e->source, "</p>\n");
    if (e->method) cli_html_element(out, "<details><summary>Method</summary><p>", e->method, "</p></details>\n");
    write_claims(out, result);
    write_tables(page, result);
    if (bo_lab_result_notes(result)) fputs("<h4>Notes</h4><ul>\n", out);
    for (size_t i = 0; i < bo_lab_result_notes(result); i++)
        cli_html_element(out, "<li>", bo_lab_result_note(result, i), "</li>\n");
    if (bo_lab_result_notes(result)) fputs("</ul>\n", out);
    fputs("<h4>Command</h4><pre><code>", out);
    write_string(out, cli_lab_command, &about);
    fputs("</code></pre>\n<p class=\"meta\">", out);
    write_string(out, cli_lab_setting, &about);
    fputs(" · <a class=\"jump\" href=\"#top\">back to top</a></p>\n</article>\n", out);
}

/* ---- summary ----------------------------------------------------------------------------------------------------- */

static void write_dots(FILE *out, const bo_lab_result *result)
{
    const bo_lab_experiment *e = bo_lab_result_about(result).experiment;
    fputs("<td class=\"dots\">", out);
    for (size_t i = 0; i < e->claim_count; i++) {
        const bo_lab_outcome o = bo_lab_result_claim(result, i);
        fprintf(out, "<span class=\"dot %s\" title=\"%s: ", class_of(o.verdict), bo_lab_verdict_name(o.verdict));
        cli_html_element(out, "", o.claim->statement, "\"></span>");
    }
    fputs("</td>", out);
}

static void write_summary_row(html_page *page, const bo_lab_result *result)
{
    FILE *out = page->out;
    const bo_lab_about about = bo_lab_result_about(result);
    fprintf(out, "<tr><td><a href=\"#%s\">", about.experiment->name);
    cli_html_element(out, "", about.experiment->title, "</a></td>");
    write_dots(out, result);
    fputs("<td>", out);
    write_tally(out, result);
    fprintf(out, "</td><td class=\"num wide\">%zu%s</td><td class=\"num wide\">%s</td></tr>\n", about.seeds,
            about.quick ? ", quick" : "", cli_seconds(about.seconds).s);
}

/* ---- page -------------------------------------------------------------------------------------------------------- */

static void write_tile(FILE *out, const char *kind, size_t count, const char *caption)
{
    fprintf(out, "<div class=\"tile %s\"><b>%zu</b><span>%s</span></div>\n", kind, count, caption);
}

/* Returns true for the first experiment of its group with a result. */
static bool begins_group(const cli_lab_results *results, size_t index)
{
    for (size_t i = index; i-- > 0;)
        if (results->items[i]) return strcmp(bo_lab_at(i)->group, bo_lab_at(index)->group) != 0;
    return true;
}

/* Explains the dots of the summary and the strips of the claims, with an example of each. */
static void write_legend(FILE *out)
{
    static const double seeds[] = {1.1, 1.25, 1.4};
    static const bo_lab_claim claim = {.rule = BO_LAB_AT_LEAST, .bound = 1};
    const bo_lab_outcome example = {.claim = &claim, .values = seeds, .mean = 1.25, .low = 1.06, .high = 1.44};
    fputs("<section class=\"legend\" aria-label=\"Legend\"><h2>Legend</h2><dl class=\"key\">\n"
          "<dt><span class=\"dot held\"></span></dt><dd>The claim <b>held</b>: the measurement supports it.</dd>\n"
          "<dt><span class=\"dot open\"></span></dt><dd>The result is <b>inconclusive</b>: the interval contains the "
          "bound, or a number is missing.</dd>\n"
          "<dt><span class=\"dot not\"></span></dt><dd>The claim <b>failed</b>: the measurement contradicts it in this "
          "setting. This is a result about the claim, not a software error.</dd>\n</dl><div class=\"eg\">",
          out);
    write_strip(out, &example, CLI_COUNT_OF(seeds));
    fputs("<span>The numbers of one claim: the shaded side of the dashed bound is claimed, each small circle is one "
          "seed, the horizontal line is the 99% interval, and the tick is the mean.</span></div></section>\n",
          out);
}

static void write_head(FILE *out, const cli_lab_results *results)
{
    size_t quick = 0;
    for (size_t i = 0; i < bo_lab_count(); i++)
        quick += results->items[i] && bo_lab_result_about(results->items[i]).quick;
    fputs(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Bochner lab report</title>\n"
        "<style>\n",
        out);
    for (size_t i = 0; i < sizeof page_style / sizeof *page_style; i++) fputs(page_style[i], out);
    fputs("</style>\n</head>\n<body id=\"top\">\n<header>\n<h1>Bochner lab report</h1>\n"
          "<p class=\"lead\">This page reports experiments that test claims about random features, linear attention, "
          "learning theory and neural architectures, the theory behind Bochner. Each claim compares a measured number "
          "with a bound that was fixed before the measurement. ",
          out);
    cli_html_text(out, cli_lab_verdicts_mean);
    fputs("</p>\n<div class=\"tiles\">\n", out);
    write_tile(out, "", results->count, results->count == 1 ? "experiment" : "experiments");
    write_tile(out, "held", results->verdicts[BO_LAB_HELD], "claims held");
    write_tile(out, "open", results->verdicts[BO_LAB_INCONCLUSIVE], "claims inconclusive");
    write_tile(out, "not", results->verdicts[BO_LAB_FAILED], "claims failed");
    fputs("</div>\n", out);
    write_legend(out);
    if (quick)
        fprintf(
            out,
            "<p class=\"small\"><strong>%zu of %zu results come from quick runs</strong> with smaller sizes and fewer "
            "seeds than the claims are intended for.</p>\n",
            quick, results->count);
    fputs("</header>\n", out);
}

static void write_summary(html_page *page, const cli_lab_results *results)
{
    FILE *out = page->out;
    fputs("<nav aria-label=\"Experiments\">\n<div class=\"scroll\"><table "
          "class=\"summary\"><thead><tr><th>Experiment</th>"
          "<th>Claims</th><th>Result</th><th class=\"wide\">Seeds</th><th "
          "class=\"wide\">Time</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (begins_group(results, i)) {
            fputs("<tr class=\"group\"><td colspan=\"5\">", out);
            cli_html_text(out, bo_lab_at(i)->group);
            fputs("</td></tr>\n", out);
        }
        write_summary_row(page, results->items[i]);
    }
    fputs("</tbody></table></div>\n</nav>\n", out);
}

/* Lists the experiments without a result. */
static void write_absent(FILE *out, const cli_lab_results *results)
{
    if (results->count == bo_lab_count()) return;
    fputs("<h2>Not run</h2>\n<p>", out);
    bool some = false;
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (results->items[i]) continue;
        fprintf(out, "%s<code>%s</code>", some ? ", " : "", bo_lab_at(i)->name);
        some = true;
    }
    fputs("</p>\n<pre><code>bochner lab run all --missing</code></pre>\n", out);
}

size_t cli_lab_page(FILE *out, const cli_lab_job *lab, const cli_lab_results *results)
{
    html_page page = {.out = out, .lab = lab};
    write_head(out, results);
    write_summary(&page, results);
    fputs("<main>\n", out);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (begins_group(results, i)) {
            fputs("<h2>", out);
            cli_html_text(out, bo_lab_at(i)->group);
            fputs("</h2>\n", out);
        }
        write_experiment(&page, results->items[i]);
    }
    write_absent(out, results);
    fprintf(out,
            "</main>\n<footer>Written by <code>bochner lab report</code>, Bochner %s.</footer>\n</body>\n</html>\n",
            bo_version());
    return page.missing;
}
