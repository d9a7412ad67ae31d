/* The report of bochner inspect as one HTML page. */
#include "../common/page.h"
#include "../common/html.h"
#include "../common/svg.h"
#include "inspect.h"
#include "../model/mixer_text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    "main{max-width:1240px}.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;"
    "margin:14px 0}.fact{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}"
    ".fact b{display:block;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums}.fact "
    "span{color:var(--soft);"
    "font-size:13.5px}\n"
    ".cell{fill:var(--main)}.cell.down{fill:var(--down)}svg .deep{fill:var(--paper);font-size:11px}svg .shallow{"
    "fill:var(--ink);font-size:11px}.card p{color:var(--soft);font-size:13.5px;margin:0 0 8px;line-height:1.4}"
    ".curves .card svg{width:100%}\n"
    ".advice{border-left:4px solid var(--main);padding-left:14px}code{font-size:14px;background:var(--band);"
    "border-radius:5px;padding:2px 6px;overflow-wrap:anywhere}td.best{font-weight:700;color:var(--main)}"
    "th.number{text-align:right}summary{cursor:pointer;color:var(--soft);margin:10px 0}.maps td{white-space:nowrap}\n"
    "@media (max-width:520px){table{font-size:12.5px}td,th{padding:5px 4px 5px 0}.card{padding:10px}}\n";

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void write_fact(FILE *out, const char *value, const char *meaning)
{
    cli_html_element(out, "<div class=\"fact\"><b>", value, "</b><span>");
    cli_html_element(out, "", meaning, "</span></div>\n");
}

static void write_model(FILE *out, const cli_inspect_job *job)
{
    const bo_model_desc *d = job->desc;
    const bo_model_sizes *s = &job->sizes;
    char text[96], count[64];
    cli_html_element(out, "<h1>", job->directory, "</h1>\n<p>");
    char heads[CLI_HEAD_TEXT];
    fprintf(out, "A language model of %zu layers and width %zu, with %s", d->layers, d->width,
            cli_head_text(d, " and ", heads));
    if (job->report->windows)
        fprintf(out, ", inspected on %zu windows of %s tokens", job->report->windows, cli_count(job->report->tokens).s);
    fputs(".</p>\n<div class=\"facts\">\n", out);
    write_fact(out, cli_count((size_t)s->parameters).s, "parameters");
    write_fact(out, cli_bytes((double)s->weight_bytes).s, "weights");
    snprintf(text, sizeof text, "keys and values at %s tokens", cli_count(s->context).s);
    if (s->cache_bytes) write_fact(out, cli_bytes((double)s->cache_bytes).s, text);
    if (s->state_bytes) write_fact(out, cli_bytes((double)s->state_bytes).s, "states of fixed size");
    snprintf(text, sizeof text, "operations per token, %.0f%% in attention",
             100 * s->attention_operations / s->operations);
    snprintf(count, sizeof count, "%s million", cli_significant(s->operations / 1e6, 3).s);
    write_fact(out, count, text);
    fputs("</div>\n", out);
}

/* ---- replacements ------------------------------------------------------------------------------------------------ */

/* Two decimals, or fewer for large numbers. */
static cli_short_text short_number(double value)
{
    cli_short_text word;
    if (isnan(value))
        snprintf(word.s, sizeof word.s, "–");
    else if (isinf(value))
        snprintf(word.s, sizeof word.s, "∞");
    else if (fabs(value) < 100)
        snprintf(word.s, sizeof word.s, "%.2f", value);
    else if (fabs(value) < 1000)
        snprintf(word.s, sizeof word.s, "%.0f", value);
    else
        snprintf(word.s, sizeof word.s, "10<sup>%.0f</sup>", log10(value));
    return word;
}

typedef double (*error_fn)(const cli_inspect_job *job, size_t candidate);

static double measured(const cli_inspect_job *job, size_t candidate)
{
    return job->report->candidates[candidate].error;
}

static void write_cells(FILE *out, const cli_inspect_job *job, size_t first, size_t end, error_fn error)
{
    const bool alone = end - first == 1;
    if (!alone) fputs("<td></td>", out);
    for (size_t i = first; i < end; i++)
        fprintf(out, "<td class=\"number%s\">%s</td>", error == measured && i == job->report->choice ? " best" : "",
                short_number(error(job, i)).s);
    for (size_t i = 0; alone && i < 4; i++) fputs("<td></td>", out);
}

/* Candidates that differ only in the number of features share a row. */
static void write_maps(FILE *out, const cli_inspect_job *job, error_fn error)
{
    char name[48];
    fputs("<div class=\"card\"><table class=\"maps\"><thead><tr><th>Features</th><th class=\"number\">fixed</th>"
          "<th class=\"number\">64</th><th class=\"number\">128</th><th class=\"number\">256</th>"
          "<th class=\"number\">512</th></tr></thead><tbody>\n",
          out);
    for (size_t at = 0, next; at < job->report->candidate_count; at = next) {
        const bo_inspect_candidate *c = &job->report->candidates[at];
        next = cli_inspect_next_map(job, at);
        if (error != measured && isnan(error(job, at))) continue;
        cli_html_element(out, "<tr><td>", next - at == 1 ? c->name : cli_inspect_map_name(c, name), "</td>");
        write_cells(out, job, at, next, error);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void write_choices(FILE *out, const cli_inspect_job *job)
{
    fputs("<details><summary>The smallest replacement of every head</summary><div class=\"card\"><table><thead><tr>"
          "<th>Layer</th><th>Head</th><th class=\"number\">Error</th><th>Replacement</th></tr></thead><tbody>\n",
          out);
    for (size_t l = 0; l < job->report->layer_count; l++)
        for (size_t h = 0; h < job->report->layers[l].head_count; h++) {
            const bo_head_report *head = &job->report->layers[l].heads[h];
            if (!head->errors || isnan(head->errors[head->choice])) continue;
            fprintf(out, "<tr><td>%zu</td><td>%zu</td><td class=\"number\">%s</td>", l, h,
                    cli_significant(head->errors[head->choice], 2).s);
            cli_html_element(out, "<td>", job->report->candidates[head->choice].name, "</td></tr>\n");
        }
    fputs("</tbody></table></div></details>\n", out);
}

static void write_errors(FILE *out, const cli_inspect_job *job)
{
    char advice[CLI_INSPECT_TEXT];
    if (!cli_inspect_choice(job)) return;
    fputs("<h2>Replacements of softmax attention</h2>\n", out);
    cli_html_element(out, "<p class=\"advice\">", cli_inspect_advice(job, advice), "<br>\n");
    cli_html_element(out, "<code>", cli_inspect_choice(job)->options, "</code></p>\n");
    fprintf(
        out,
        "<p class=\"soft\">Relative error of the outputs of the heads, root mean square over all heads, without "
        "training. The target is %s; the recommended row reaches it with the smallest state, or is closest to it. "
        "gaussian: frequencies drawn for the data; dark: queries and keys whitened; window: softmax attention to the "
        "most recent keys.</p>\n",
        cli_significant(job->report->target, 2).s);
    write_maps(out, job, measured);
    fputs("<details><summary>Upper bounds by the variance formula</summary>\n", out);
    write_maps(out, job, cli_inspect_predicted);
    fputs("</details>\n", out);
    write_choices(out, job);
}

/* ---- heat maps --------------------------------------------------------------------------------------------------- */

typedef double (*value_fn)(const cli_inspect_job *job, const bo_head_report *head);

typedef struct heat_map {
    const char *title, *note;
    bo_inspect_part part;
    value_fn value;
    double low, high; /* both 0: from the data */
    bool signs;
    int digits;
} heat_map;

static const bo_head_moments *moments_of(const bo_head_report *h)
{
    return h->mapped.dim ? &h->mapped : &h->moments;
}

#define VALUE(name, expression)                                                                                        \
    static double name(const cli_inspect_job *job, const bo_head_report *h)                                            \
    {                                                                                                                  \
        (void)job;                                                                                                     \
        return expression;                                                                                             \
    }
VALUE(query_norm, moments_of(h)->query_norm)
VALUE(key_norm, moments_of(h)->key_norm)
VALUE(largest, moments_of(h)->largest)
VALUE(condition, log10(moments_of(h)->condition))
VALUE(effective, moments_of(h)->effective)
VALUE(entropy, h->entropy_share)
VALUE(previous, h->previous_repeated)
VALUE(induction, h->induction_repeated)
VALUE(induction_text, h->induction - h->induction_uniform)
VALUE(first_token, h->first)
VALUE(qk_rank, h->qk.effective)
VALUE(qk_sign, h->qk.positive)
VALUE(ov_rank, h->ov.effective)
VALUE(ov_sign, h->ov.positive)
VALUE(copying, h->copying)
VALUE(written, h->written)
VALUE(logit, h->logit)
VALUE(subspace, h->subspace_share)
VALUE(chosen_error, h->errors ? h->errors[job->report->choice] : NAN)

static const heat_map heat_maps[] = {
    {"Error of the recommended replacement", "Relative error of the output of the head.", BO_INSPECT_PART_ERRORS,
     chosen_error, 0, 0, false, 2},
    {"Largest eigenvalue of Λ",
     "Second moments of √s q and √s k. From 1/6 ≈ 0.17 on, plain positive features have infinite variance on Gaussian "
     "data; from 1/2 on, even optimal features.",
     BO_INSPECT_PART_STATISTICS, largest, 0, 0, false, 2},
    {"Condition number of Λ (log₁₀)", "Ratio of the largest and the smallest eigenvalue.", BO_INSPECT_PART_STATISTICS,
     condition, 0, 0, false, 2},
    {"Effective dimension", "(Σλ)² / Σλ² of the eigenvalues of Λ.", BO_INSPECT_PART_STATISTICS, effective, 0, 0, false,
     2},
    {"Norm of queries", "Root mean square of |√s q|.", BO_INSPECT_PART_STATISTICS, query_norm, 0, 0, false, 2},
    {"Norm of keys", "Root mean square of |√s k|.", BO_INSPECT_PART_STATISTICS, key_norm, 0, 0, false, 2},
    {"Entropy of attention", "Relative to uniform attention: 0 is one key, 1 is uniform over all keys.",
     BO_INSPECT_PART_BEHAVIOR, entropy, 0, 1, false, 2},
    {"Previous token", "Mean attention to the previous token, on repeated random tokens.", BO_INSPECT_PART_BEHAVIOR,
     previous, 0, 1, false, 2},
    {"Induction", "Attention of the second copy of random tokens to the token after the same token of the first copy.",
     BO_INSPECT_PART_BEHAVIOR, induction, 0, 1, false, 2},
    {"Induction on the text",
     "Attention to tokens that followed earlier occurrences of the current one, minus that of uniform attention.",
     BO_INSPECT_PART_BEHAVIOR, induction_text, -0.5, 0.5, true, 2},
    {"First token", "Mean attention to the first token of the window.", BO_INSPECT_PART_BEHAVIOR, first_token, 0, 1,
     false, 2},
    {"Copying", "Sign of the circuit from a token to the logits: 1 raises the logit of the token itself.",
     BO_INSPECT_PART_CIRCUITS, copying, -1, 1, true, 2},
    {"Sign of W_OV", "Σ Re λ / Σ |λ|: 1 copies what is read, −1 removes it.", BO_INSPECT_PART_CIRCUITS, ov_sign, -1, 1,
     true, 2},
    {"Sign of W_QK", "Σ Re λ / Σ |λ|: 1 attends to keys similar to the query.", BO_INSPECT_PART_CIRCUITS, qk_sign, -1,
     1, true, 2},
    {"Effective rank of W_OV", "(Σσ)² / Σσ².", BO_INSPECT_PART_CIRCUITS, ov_rank, 0, 0, false, 2},
    {"Effective rank of W_QK", "(Σσ)² / Σσ².", BO_INSPECT_PART_CIRCUITS, qk_rank, 0, 0, false, 2},
    {"Contribution to the residual stream", "Root mean square of the head's output, relative to the stream.",
     BO_INSPECT_PART_ATTRIBUTION, written, 0, 0, false, 2},
    {"Direct contribution to the logit", "Logit of the next token of the text, minus the mean over the vocabulary.",
     BO_INSPECT_PART_ATTRIBUTION, logit, 0, 0, true, 2},
    {"Variance in the written subspace", "Share of the variance of the stream in the column space of W_OV.",
     BO_INSPECT_PART_ATTRIBUTION, subspace, 0, 0, false, 2},
};

/* The color range for values without a natural range: from 0 to the largest, or from just below the smallest if they
 * are similar. */
static void find_range(cli_heat *heat)
{
    double largest = 0, smallest = INFINITY;
    for (size_t i = 0; i < heat->rows * heat->columns; i++)
        if (isfinite(heat->values[i])) {
            largest = fmax(largest, fabs(heat->values[i]));
            smallest = fmin(smallest, fabs(heat->values[i]));
        }
    heat->high = largest > 0 ? largest : 1;
    heat->low = heat->signs                                      ? -heat->high
                : smallest > 0.4 * largest && smallest < largest ? smallest - 0.2 * (largest - smallest)
                                                                 : 0;
}

static void write_heat(FILE *out, const cli_inspect_job *job, const heat_map *p, double *values)
{
    cli_heat heat = {.title = p->title,
                     .row = "layer",
                     .column = "head",
                     .rows = job->report->layer_count,
                     .columns = cli_inspect_heads(job),
                     .values = values,
                     .low = p->low,
                     .high = p->high,
                     .signs = p->signs,
                     .digits = p->digits};
    bool any = false;
    for (size_t i = 0; i < heat.rows * heat.columns; i++) {
        const bo_head_report *head = &job->report->layers[i / heat.columns].heads[i % heat.columns];
        values[i] = head ? p->value(job, head) : NAN;
        any |= !isnan(values[i]);
    }
    if (!any) return; /* no values for this kind of attention, or without a text */
    if (p->low == 0 && p->high == 0) find_range(&heat);
    cli_html_element(out, "<div class=\"card\"><h3>", p->title, "</h3>");
    cli_html_element(out, "<p>", p->note, "</p>\n");
    cli_heat_svg(out, &heat);
    fputs("</div>\n", out);
}

static void write_heats(FILE *out, const cli_inspect_job *job)
{
    double *values = cli_allocate(job->report->layer_count * cli_inspect_heads(job), sizeof *values, "a plot");
    if (job->report->parts)
        fprintf(
            out,
            "<h2>Heads</h2>\n<p class=\"soft\">One row per layer, one column per head.%s</p>\n<div class=\"curves\">\n",
            job->report->rotated && cli_inspect_has(job, BO_INSPECT_PART_CIRCUITS)
                ? " W_QK is computed without RoPE, as for a query and a key at the same position."
                : "");
    for (size_t i = 0; i < CLI_COUNT_OF(heat_maps); i++)
        if (cli_inspect_has(job, heat_maps[i].part)) write_heat(out, job, &heat_maps[i], values);
    if (job->report->parts) fputs("</div>\n", out);
    free(values);
}

/* ---- spectra ----------------------------------------------------------------------------------------------------- */

typedef const double *(*spectrum_fn)(const bo_head_report *head, size_t *count);

static const double *eigenvalues_of(const bo_head_report *head, size_t *count)
{
    *count = moments_of(head)->dim;
    return moments_of(head)->eigenvalues;
}

static const double *singular_of(const bo_head_report *head, size_t *count)
{
    *count = head->ov.rank;
    return head->ov.singular;
}

/* log₁₀ of the spectra of the heads of a layer; the first line is the mean over the heads. */
static void write_spectrum(FILE *out, const cli_inspect_job *job, size_t layer, spectrum_fn spectrum)
{
    const size_t heads = job->report->layers[layer].head_count;
    size_t count;
    char title[64];
    spectrum(&job->report->layers[layer].heads[0], &count);
    double *x = cli_allocate(count, sizeof *x, "a plot"), *y = cli_allocate((heads + 1) * count, sizeof *y, "a plot");
    cli_line *lines = cli_allocate(heads + 1, sizeof *lines, "a plot");
    for (size_t i = 0; i < count; i++) x[i] = (double)(i + 1);
    for (size_t h = 0; h <= heads; h++) lines[h] = (cli_line){.y = y + h * count, .stride = 1};
    for (size_t h = 0; h < heads; h++) {
        const double *values = spectrum(&job->report->layers[layer].heads[h], &count);
        for (size_t i = 0; i < count; i++) {
            y[(h + 1) * count + i] = log10(fmax(values[i], 1e-8 * fmax(values[0], 1e-30)));
            y[i] += y[(h + 1) * count + i] / (double)heads;
        }
    }
    snprintf(title, sizeof title, "Layer %zu", layer);
    cli_html_element(out, "<div class=\"card\"><h3>", title, "</h3>");
    cli_curve_svg(out, x, count, lines, heads + 1, (cli_bounds){INFINITY, -INFINITY}, title);
    fputs("</div>\n", out);
    free(x);
    free(y);
    free(lines);
}

static void write_spectra(FILE *out, const cli_inspect_job *job, const char *title, const char *note,
                          spectrum_fn spectrum)
{
    cli_html_element(out, "<h2>", title, "</h2>\n");
    cli_html_element(out, "<p class=\"soft\">", note, "</p>\n<div class=\"curves\">\n");
    for (size_t l = 0; l < job->report->layer_count; l++) write_spectrum(out, job, l, spectrum);
    fputs("</div>\n", out);
}

/* ---- separation rank --------------------------------------------------------------------------------------------- */

static void write_separation(FILE *out, const cli_inspect_job *job)
{
    const size_t places = 1 + 2 * job->desc->layers;
    if (!job->separation) return;
    fputs("<h2>Separation rank</h2>\n<p class=\"soft\">How strongly the first and the second half of 16 tokens "
          "interact in the residual stream of the last token: the effective rank of a matrix of 24 first halves by 24 "
          "second halves, at most 23. A larger rank means more complex dependencies.</p>\n<div class=\"card\">",
          out);
    cli_bar *bars = cli_allocate(places, sizeof *bars, "a plot");
    cli_short_text *labels = cli_allocate(places, sizeof *labels, "a plot");
    for (size_t p = 0; p < places; p++) {
        labels[p] = cli_significant(job->separation[p].effective, 3);
        bars[p] = (cli_bar){
            bo_model_activation(job->inspected.model, p), labels[p].s, 0, job->separation[p].effective, NAN, "up"};
    }
    cli_bars_svg(out, bars, places, 1, "Separation rank");
    fputs("</div>\n", out);
    free(bars);
    free(labels);
}

void cli_inspect_page(FILE *out, const cli_inspect_job *job)
{
    cli_page_begin(out, job->directory, " inspected", style);
    write_model(out, job);
    write_errors(out, job);
    write_heats(out, job);
    if (cli_inspect_has(job, BO_INSPECT_PART_STATISTICS))
        write_spectra(
            out, job, "Spectra of queries and keys",
            "Eigenvalues of Λ, log₁₀, in descending order: thin lines are heads, the thick line is their mean. "
            "1/6 is −0.78.",
            eigenvalues_of);
    if (cli_inspect_has(job, BO_INSPECT_PART_CIRCUITS))
        write_spectra(out, job, "Spectra of W_OV",
                      "Singular values, log₁₀: thin lines are heads, the thick line is their mean.", singular_of);
    write_separation(out, job);
    cli_page_end(out);
}
