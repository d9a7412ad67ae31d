/* The report of bochner explain as one HTML page without external files and without scripts. */
#include "../common/columns.h"
#include "explain.h"
#include "../common/html.h"
#include "../common/page.h"
#include "../common/svg.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- importance -------------------------------------------------------------------------------------------------- */

static void write_importance(FILE *out, const cli_explain_job *job)
{
    const size_t shown = job->options->top < job->columns ? job->options->top : job->columns;
    fputs("<h2>Columns</h2>\n<p class=\"soft\">", out);
    if (job->has_target)
        fprintf(out, "Increase of the %s when the values of the column are permuted among the rows",
                cli_explain_measure(job));
    else
        fprintf(out, "The data does not have the target: %s when the values of the column are permuted among the rows",
                job->report->classes ? "total variation distance of the probabilities"
                                     : "root mean square change of the predictions");
    fprintf(out,
            ", mean and standard error of %zu permutations. An informative column can have no importance if other "
            "columns have the same information.</p>\n",
            job->options->repeats);
    cli_bar *bars = cli_allocate(shown, sizeof *bars, "a plot");
    cli_short_text *labels = cli_allocate(shown, sizeof *labels, "a plot");
    for (size_t i = 0; i < shown; i++) {
        const size_t c = job->order[i];
        const bo_column_importance *m = &job->importance[c];
        labels[i] = cli_quantity(m->increase, 3);
        bars[i] = (cli_bar){job->column[c].name, labels[i].s,       0,
                            m->increase,         m->increase_error, m->increase < 0 ? "down" : "up"};
    }
    fputs("<div class=\"card\">", out);
    cli_bars_svg(out, bars, shown, 1, "Importance of the columns by permutation");
    fputs("</div>\n", out);
    if (shown < job->columns)
        fprintf(out, "<p class=\"soft\">%s more columns are not shown.</p>\n", cli_count(job->columns - shown).s);
    free(bars);
    free(labels);
}

static void write_gradients(FILE *out, const cli_explain_job *job)
{
    const size_t shown = job->options->top < job->columns ? job->options->top : job->columns;
    fprintf(out,
            "<h2>Slopes</h2>\n<p class=\"soft\">Root mean square slope of the %s by %s, from the average gradient "
            "outer product.</p>\n",
            job->report->classes ? "class scores" : "predictions", cli_explain_slope_unit(job));
    cli_bar *bars = cli_allocate(shown, sizeof *bars, "a plot");
    cli_short_text *labels = cli_allocate(shown, sizeof *labels, "a plot");
    for (size_t i = 0; i < shown; i++) {
        const size_t c = job->order[i];
        labels[i] = cli_quantity(job->gradients[c], 3);
        bars[i] = (cli_bar){job->column[c].name, labels[i].s, 0, job->gradients[c], NAN, "up"};
    }
    fputs("<div class=\"card\">", out);
    cli_bars_svg(out, bars, shown, 1, "Slopes of the columns");
    fputs("</div>\n", out);
    free(bars);
    free(labels);
}

enum { LOADINGS = 12 };

/* One row per direction, with the inputs whose loadings are at least 0.1. */
static void write_directions(FILE *out, const cli_explain_job *job)
{
    const size_t dim = job->report->dim;
    if (job->directions == 0) return;
    fputs("<h2>Directions</h2>\n<p class=\"soft\">Eigenvectors of the average gradient outer product in the scaled "
          "inputs, with their shares of its trace. The predictions change most along the first direction.</p>\n<div "
          "class=\"card\"><table><thead><tr><th>Share</th><th>Inputs with loadings of at least "
          "0.1</th></tr></thead><tbody>\n",
          out);
    for (size_t k = 0; k < job->directions; k++) {
        fprintf(out, "<tr><td class=\"number\">%.1f%%</td><td>", 100 * job->shares[k]);
        size_t inputs[LOADINGS];
        const size_t count = cli_explain_loadings(job, k, LOADINGS, 0.1, inputs);
        for (size_t i = 0; i < count; i++) {
            const double loading = job->vectors[k * dim + inputs[i]];
            cli_html_element(out, i ? ", " : "", cli_input_name(job->schema, inputs[i]), "");
            fprintf(out, " %s%.2f", loading < 0 ? "−" : "+", fabs(loading));
        }
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

enum { MAX_OTHER_CLASSES = 6 }; /* classes drawn in addition to the main class */

static void write_numbers_curve(FILE *out, const cli_explain_job *job, const cli_explain_curve *curve,
                                cli_bounds bounds)
{
    const size_t outputs = job->outputs, t = job->shown;
    const double scale = cli_explain_curve_scale(job, curve);
    double *x = cli_allocate(curve->points, sizeof *x, "a plot");
    for (size_t k = 0; k < curve->points; k++) x[k] = curve->values[k].number;
    cli_line lines[MAX_OTHER_CLASSES] = {{curve->mean + t, curve->low + t, curve->high + t, outputs}};
    size_t count = 1;
    for (size_t c = 0; job->report->classes > 2 && outputs <= MAX_OTHER_CLASSES && c < outputs; c++)
        if (c != t) lines[count++] = (cli_line){curve->mean + c, NULL, NULL, outputs};
    cli_curve_svg(out, x, curve->points, lines, count, bounds, job->column[curve->column].name);
    for (size_t k = 0; k < curve->points; k++)
        if (curve->values[k].missing)
            fprintf(out, "<p class=\"soft\">Missing: %s (%s to %s)</p>\n",
                    cli_explain_number(curve->mean[k * outputs + t], scale).s,
                    cli_explain_number(curve->low[k * outputs + t], scale).s,
                    cli_explain_number(curve->high[k * outputs + t], scale).s);
    free(x);
}

static void write_values_curve(FILE *out, const cli_explain_job *job, const cli_explain_curve *curve, cli_bounds bounds)
{
    const size_t outputs = job->outputs, t = job->shown;
    cli_range *ranges = cli_allocate(curve->points, sizeof *ranges, "a plot");
    for (size_t k = 0; k < curve->points; k++)
        ranges[k] = (cli_range){curve->values[k].text, curve->low[k * outputs + t], curve->mean[k * outputs + t],
                                curve->high[k * outputs + t]};
    cli_ranges_svg(out, ranges, curve->points, bounds, job->column[curve->column].name);
    free(ranges);
}

static void write_shown(FILE *out, const cli_explain_job *job)
{
    cli_short_text buffer;
    cli_html_element(out, job->report->classes ? "the probability of " : "",
                     cli_explain_output(job, job->shown, &buffer), "");
}

/* All curves share a scale, so that effects are comparable. */
static cli_bounds common_bounds(const cli_explain_job *job)
{
    cli_bounds all = {INFINITY, -INFINITY};
    for (size_t i = 0; i < job->curve_count; i++)
        for (size_t k = 0; k < job->curves[i].points; k++) {
            const size_t at = k * job->outputs + job->shown;
            all.low = fmin(all.low, fmin(job->curves[i].low[at], job->curves[i].mean[at]));
            all.high = fmax(all.high, fmax(job->curves[i].high[at], job->curves[i].mean[at]));
        }
    return all;
}

static void write_curves(FILE *out, const cli_explain_job *job)
{
    if (job->curve_count == 0) return;
    const cli_bounds bounds = common_bounds(job);
    fputs("<h2>Curves</h2>\n<p class=\"soft\">Partial dependence of ", out);
    write_shown(out, job);
    fprintf(out, ": its mean over %s rows if all of them have the same value of the column. ",
            cli_count(job->curve_rows).s);
    fputs(job->report->classes ? "The band contains the probabilities of 80% of the rows."
                               : "The band contains the curves of 80% of the rows, shifted to the same level: it is "
                                 "wide where the effect of the column depends on other columns.",
          out);
    if (job->report->classes > 2 && job->outputs <= MAX_OTHER_CLASSES) fputs(" Thin lines are the other classes.", out);
    fputs(" All curves have the same scale.", out);
    fputs("</p>\n<div class=\"curves\">\n", out);
    for (size_t i = 0; i < job->curve_count; i++) {
        const cli_explain_curve *curve = &job->curves[i];
        const cli_explain_column *column = &job->column[curve->column];
        cli_html_element(out, "<div class=\"card\"><h3>", column->name, "</h3>");
        (column->number || column->date ? write_numbers_curve : write_values_curve)(out, job, curve, bounds);
        fputs("</div>\n", out);
    }
    fputs("</div>\n", out);
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

static cli_short_text with_sign(double value, double scale)
{
    cli_short_text word;
    snprintf(word.s, sizeof word.s, "%s%.46s", value > 0 ? "+" : "", cli_explain_number(value, scale).s);
    return word;
}

/* A waterfall plot from the mean prediction to the prediction of the row. */
static void write_waterfall(FILE *out, const cli_explain_job *job)
{
    const size_t outputs = job->outputs, t = job->shown;
    const size_t shown = job->options->top < job->columns ? job->options->top : job->columns;
    size_t *order = cli_explain_row_order(job), count = 0;
    cli_bar *bars = cli_allocate(shown + 3, sizeof *bars, "a plot");
    cli_short_text *labels = cli_allocate(shown + 3, sizeof *labels, "a plot");
    char (*names)[160] = cli_allocate(shown + 1, sizeof *names, "a plot");
    const double scale = cli_explain_row_scale(job);
    double at = job->base[t];
    labels[0] = cli_explain_number(at, scale);
    bars[count++] = (cli_bar){"mean prediction", labels[0].s, at, at, NAN, "total"};
    for (size_t i = 0; i < shown; i++) {
        const double part = job->contributions[order[i] * outputs + t];
        const double error = job->contribution_errors[order[i] * outputs + t];
        cli_explain_value value;
        cli_explain_value_of(job, order[i], job->row, &value);
        snprintf(names[i], sizeof names[i], "%.90s = %.60s", job->column[order[i]].name, value.text);
        labels[count] = with_sign(part, scale);
        bars[count] = (cli_bar){names[i], labels[count].s, at, at + part, error, part < 0 ? "down" : "up"};
        at += part;
        count++;
    }
    const double rest = job->prediction[t] - at;
    if (shown < job->columns) {
        labels[count] = with_sign(rest, scale);
        bars[count] =
            (cli_bar){"all other columns", labels[count].s, at, job->prediction[t], NAN, rest < 0 ? "down" : "up"};
        count++;
    }
    labels[count] = cli_explain_number(job->prediction[t], scale);
    bars[count] = (cli_bar){"prediction", labels[count].s, job->prediction[t], job->prediction[t], NAN, "total"};
    cli_bars_svg(out, bars, count + 1, 0, "Contributions of the columns");
    free(order);
    free(bars);
    free(labels);
    free(names);
}

static void write_row(FILE *out, const cli_explain_job *job)
{
    fprintf(out, "<h2>Row %zu</h2>\n<p class=\"soft\">Contributions of the columns to ", job->options->row);
    write_shown(out, job);
    fprintf(
        out,
        ", from the mean prediction to that of the row: Shapley values, averages over %s pairs of random orders of the "
        "columns, with standard errors.</p>\n",
        cli_count(job->samples).s);
    fputs("<div class=\"card\">", out);
    write_waterfall(out, job);
    fputs("</div>\n", out);
}

void cli_explain_page(FILE *out, const cli_explain_job *job)
{
    cli_page_begin(out, job->model_path, " explained", NULL);
    cli_html_element(out, "<h1>", job->model_path, "</h1>\n<p>");
    fprintf(out, "%s with %s columns, measured on %s rows of ", job->report->classes ? "Classification" : "Regression",
            cli_count(job->columns).s, cli_count(job->rows).s);
    cli_html_element(out, "", job->data_path, ".");
    if (job->has_target && job->report->classes)
        fprintf(out, " Log loss %s, accuracy %.2f%%.", cli_significant(job->errors.error, 4).s,
                100 * job->errors.accuracy);
    else if (job->has_target)
        fprintf(out, " RMSE %s.", cli_quantity(job->errors.error, 4).s);
    fputs("</p>\n", out);
    if (job->has_row) write_row(out, job);
    if (job->options->top > 0) write_importance(out, job);
    write_curves(out, job);
    if (job->options->top > 0) write_gradients(out, job);
    write_directions(out, job);
    cli_page_end(out);
}
