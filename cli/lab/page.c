/* The page around its experiments: what came out at the top, then group by group. */
#include "html.h"
#include <string.h>

static void put_tile(FILE *out, const char *kind, size_t count, const char *words)
{
    fprintf(out, "<div class=\"tile %s\"><b>%zu</b><span>%s</span></div>\n", kind, count, words);
}

/* Is it the first of its group among those that have a result? */
static bool begins_group(const cli_lab_results *results, size_t index)
{
    for (size_t i = index; i-- > 0;)
        if (results->items[i]) return strcmp(bo_lab_at(i)->group, bo_lab_at(index)->group) != 0;
    return true;
}

static void put_head(FILE *out, const cli_lab_results *results)
{
    size_t quick = 0;
    for (size_t i = 0; i < bo_lab_count(); i++)
        quick += results->items[i] && bo_lab_result_about(results->items[i]).quick;
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Bochner: the lab</title>\n"
          "<style>\n",
          out);
    fputs(cli_lab_style, out);
    fputs(
        "</style>\n</head>\n<body id=\"top\">\n<header>\n<h1>The lab</h1>\n"
        "<p class=\"lead\">The claims that Bochner’s mathematics rests on, each with a number that could have come out "
        "otherwise.</p>\n<div class=\"tiles\">\n",
        out);
    put_tile(out, "held", results->verdicts[BO_LAB_HELD], "claims held");
    put_tile(out, "not", results->verdicts[BO_LAB_NOT_HELD], "did not hold");
    put_tile(out, "open", results->verdicts[BO_LAB_INCONCLUSIVE], "inconclusive");
    put_tile(out, "", results->count, "experiments");
    fputs("</div>\n<p class=\"small\">", out);
    cli_html_text(out, cli_lab_verdicts_mean);
    fputs(
        " An experiment has the verdict of its worst claim: a claim that does not hold is a result, not a fault.</p>\n",
        out);
    if (quick)
        fprintf(
            out,
            "<p class=\"small\"><strong>%zu of %zu results are of quick runs:</strong> smaller sizes and fewer seeds "
            "than the claims were meant for.</p>\n",
            quick, results->count);
    fputs("</header>\n", out);
}

static void put_summary(html_page *page, const cli_lab_results *results)
{
    FILE *out = page->out;
    fputs("<nav aria-label=\"Experiments\">\n<div class=\"scroll\"><table "
          "class=\"summary\"><thead><tr><th>Experiment</th>"
          "<th>Claims</th><th>Verdict</th><th class=\"wide\">Seeds</th><th "
          "class=\"wide\">Time</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (begins_group(results, i)) {
            fputs("<tr class=\"group\"><td colspan=\"5\">", out);
            cli_html_text(out, bo_lab_at(i)->group);
            fputs("</td></tr>\n", out);
        }
        cli_html_summary_row(page, results->items[i]);
    }
    fputs("</tbody></table></div>\n</nav>\n", out);
}

/* What has not been run is said too. */
static void put_absent(FILE *out, const cli_lab_results *results)
{
    if (results->count == bo_lab_count()) return;
    fputs("<h2>Without a result</h2>\n<p>", out);
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
    put_head(out, results);
    put_summary(&page, results);
    fputs("<main>\n", out);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (begins_group(results, i)) {
            fputs("<h2>", out);
            cli_html_text(out, bo_lab_at(i)->group);
            fputs("</h2>\n", out);
        }
        cli_html_experiment(&page, results->items[i]);
    }
    put_absent(out, results);
    fprintf(
        out,
        "</main>\n<footer>Made by <code>bochner lab report</code>, Bochner %s, from the numbers of every seed; dots in "
        "the strips are seeds, the line is the interval, the shaded side is what is "
        "claimed.</footer>\n</body>\n</html>\n",
        bo_version());
    return page.missing;
}
