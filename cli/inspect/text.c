/* The report of bochner inspect as text. */
#include "inspect.h"
#include "../model/mixer_text.h"
#include <math.h>
#include <stdio.h>

/* ---- formats ----------------------------------------------------------------------------------------------------- */

/* A number of at most six characters; "-" for NaN. */
static cli_short_text number(double value)
{
    cli_short_text word;
    if (isnan(value))
        snprintf(word.s, sizeof word.s, "-");
    else if (isinf(value))
        snprintf(word.s, sizeof word.s, "inf");
    else if (fabs(value) >= 1e5)
        snprintf(word.s, sizeof word.s, "%.0e", value);
    else if (fabs(value) >= 100)
        snprintf(word.s, sizeof word.s, "%.0f", value);
    else if (fabs(value) >= 10)
        snprintf(word.s, sizeof word.s, "%.1f", value);
    else
        snprintf(word.s, sizeof word.s, "%.2f", value);
    return word;
}

static void heading(const char *title)
{
    printf("\n%s\n", title);
}

static void note(const char *text)
{
    fputs("  ", stdout);
    cli_print_wrapped(stdout, text, 2);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void print_model(const cli_inspect_job *job)
{
    const bo_model_desc *d = job->desc;
    const bo_model_sizes *s = &job->sizes;
    char heads[CLI_HEAD_TEXT];
    printf("%s: %zu layer%s, width %zu, %s", job->directory, d->layers, d->layers == 1 ? "" : "s", d->width,
           cli_head_text(d, ", ", heads));
    printf("\n%-12s%s parameters, %s\n", "Weights", cli_count((size_t)s->parameters).s,
           cli_bytes((double)s->weight_bytes).s);
    printf("%-12sat %s tokens: ", "Memory", cli_count(s->context).s);
    if (s->cache_bytes) printf("%s of keys and values", cli_bytes((double)s->cache_bytes).s);
    if (s->state_bytes)
        printf("%s%s of states of fixed size", s->cache_bytes ? ", " : "", cli_bytes((double)s->state_bytes).s);
    printf(" per sequence\n%-12s%s million per token, %.0f%% of them in attention\n", "Operations",
           cli_significant(s->operations / 1e6, 4).s, 100 * s->attention_operations / s->operations);
    if (job->report->windows)
        printf("%-12s%zu window%s of %s tokens, %s\n", "Text", job->report->windows,
               job->report->windows == 1 ? "" : "s", cli_count(job->report->tokens).s, cli_seconds(job->seconds).s);
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

typedef void (*row_fn)(const cli_inspect_job *job, const bo_head_report *head);

static void print_heads(const cli_inspect_job *job, row_fn row)
{
    for (size_t l = 0; l < job->report->layer_count; l++)
        for (size_t h = 0; h < job->report->layers[l].head_count; h++) {
            printf("  %5zu %4zu", l, h);
            row(job, &job->report->layers[l].heads[h]);
            putchar('\n');
        }
}

static void attention_row(const cli_inspect_job *job, const bo_head_report *h)
{
    const bo_head_moments *m = h->mapped.dim ? &h->mapped : &h->moments;
    if (cli_inspect_has(job, BO_INSPECT_PART_STATISTICS))
        printf(" %5s %5s %6s%c %5s %5s", number(m->query_norm).s, number(m->key_norm).s, number(m->largest).s,
               m->largest < 1.0 / 6 ? ' '
               : m->largest < 0.5   ? '*'
                                    : '!',
               number(m->condition).s, number(m->effective).s);
    if (cli_inspect_has(job, BO_INSPECT_PART_BEHAVIOR))
        printf(" %5s %5s %5s %5s %5s", number(h->entropy_share).s,
               number(job->report->windows ? h->previous : h->previous_repeated).s, number(h->induction_repeated).s,
               number(h->induction).s, number(h->first).s);
}

static void print_attention(const cli_inspect_job *job)
{
    const bool statistics = cli_inspect_has(job, BO_INSPECT_PART_STATISTICS);
    const bool behavior = cli_inspect_has(job, BO_INSPECT_PART_BEHAVIOR);
    if (!statistics && !behavior) return;
    heading("Attention");
    if (statistics)
        note("|q| and |k| are root mean square norms, times the square root of the scale; lambda is the largest "
             "eigenvalue of their second moments. From 1/6 on (*), plain positive features have infinite variance on "
             "Gaussian data; from 1/2 on (!), even optimal features. cond is the condition number, dims the effective "
             "dimension.");
    if (behavior)
        note("entr is the entropy of attention (1: uniform); prev, induc and first are the attention to the previous "
             "token, to the token after an earlier occurrence of the current one (on repeated random tokens, then on "
             "the text), and to the first token.");
    printf("\n  %5s %4s", "layer", "head");
    if (statistics) printf(" %5s %5s %6s  %5s %5s", "|q|", "|k|", "lambda", "cond", "dims");
    if (behavior) printf(" %5s %5s %5s %5s %5s", "entr", "prev", "induc", "text", "first");
    putchar('\n');
    print_heads(job, attention_row);
}

static void circuit_row(const cli_inspect_job *job, const bo_head_report *h)
{
    if (cli_inspect_has(job, BO_INSPECT_PART_CIRCUITS))
        printf(" %7s %7s %7s %7s %7s", number(h->qk.effective).s, number(h->qk.positive).s, number(h->ov.effective).s,
               number(h->ov.positive).s, number(h->copying).s);
    if (cli_inspect_has(job, BO_INSPECT_PART_ATTRIBUTION))
        printf(" %7s %7s %7s", number(h->written).s, number(h->logit).s, number(h->subspace_share).s);
}

static void print_circuits(const cli_inspect_job *job)
{
    const bool circuits = cli_inspect_has(job, BO_INSPECT_PART_CIRCUITS);
    const bool attribution = cli_inspect_has(job, BO_INSPECT_PART_ATTRIBUTION);
    if (!circuits && !attribution) return;
    heading("Circuits");
    if (circuits)
        note(job->report->rotated ? "QK and OV are effective ranks of the matrices, with their signs: the sum of the "
                                    "real parts of the eigenvalues over the sum of their sizes (QK without RoPE). copy "
                                    "is the sign of the circuit from tokens to their logits."
                                  : "QK and OV are effective ranks of the matrices, with their signs: the sum of the "
                                    "real parts of the eigenvalues over the sum of their sizes. copy is the sign of "
                                    "the circuit from tokens to their logits.");
    if (attribution)
        note("writes is the size of the head's output relative to the residual stream; logit is its mean direct "
             "contribution to the logit of the next token; space is the share of the variance of the stream in the "
             "subspace that it writes to.");
    printf("\n  %5s %4s", "layer", "head");
    if (circuits) printf(" %7s %7s %7s %7s %7s", "QK", "sign", "OV", "sign", "copy");
    if (attribution) printf(" %7s %7s %7s", "writes", "logit", "space");
    putchar('\n');
    print_heads(job, circuit_row);
}

/* ---- replacements ------------------------------------------------------------------------------------------------ */

static void print_map(const cli_inspect_job *job, size_t first, size_t end)
{
    char name[48], bound[56];
    const bo_inspect_candidate *c = &job->report->candidates[first];
    printf("  %-21s", end - first == 1 ? c->name : cli_inspect_map_name(c, name));
    for (size_t i = first; i < end; i++) {
        const double predicted = cli_inspect_predicted(job, i);
        snprintf(bound, sizeof bound, "(%s)", number(predicted).s);
        printf(" %5s", number(job->report->candidates[i].error).s);
        if (i + 1 < end || !isnan(predicted)) printf(" %7s", isnan(predicted) ? "" : bound);
    }
    putchar('\n');
}

static void print_choices(const cli_inspect_job *job)
{
    printf("\n  %5s %4s %7s  %s\n", "layer", "head", "error",
           "smallest replacement that reaches the target, or the best");
    for (size_t l = 0; l < job->report->layer_count; l++)
        for (size_t h = 0; h < job->report->layers[l].head_count; h++) {
            const bo_head_report *head = &job->report->layers[l].heads[h];
            if (!head->errors || isnan(head->errors[head->choice])) continue;
            printf("  %5zu %4zu %7s  %s\n", l, h, number(head->errors[head->choice]).s,
                   job->report->candidates[head->choice].name);
        }
}

static void print_errors(const cli_inspect_job *job)
{
    char advice[CLI_INSPECT_TEXT];
    if (!cli_inspect_has(job, BO_INSPECT_PART_ERRORS)) return;
    heading("Replacements of softmax attention");
    if (!cli_inspect_choice(job)) {
        note("No layer has softmax weights, so there is nothing to replace.");
        return;
    }
    note("Relative error of the outputs of the heads without training, root mean square over all heads; in brackets "
         "the upper bound by the variance formula. gaussian: frequencies are drawn for the data; dark: queries and "
         "keys are whitened.");
    printf("\n  %-21s %5s %13s %13s %13s\n", "features", "64", "128", "256", "512");
    for (size_t at = 0, next; at < job->report->candidate_count; at = next) {
        next = cli_inspect_next_map(job, at);
        print_map(job, at, next);
    }
    print_choices(job);
    printf("\n%-12s", "Advice");
    cli_print_wrapped(stdout, cli_inspect_advice(job, advice), 12);
    printf("%-12s%s\n", "Options", cli_inspect_choice(job)->options);
}

/* ---- separation rank --------------------------------------------------------------------------------------------- */

static void print_separation(const cli_inspect_job *job)
{
    if (!job->separation) return;
    heading("Separation rank");
    note("Of the residual stream of the last of 16 tokens, as a function of the first and the second half of them: 24 "
         "by 24 settings. interaction is the share of its variance that neither half explains alone.");
    printf("\n  %-22s %10s %10s %12s\n", "after", "effective", "within 10%", "interaction");
    for (size_t p = 0; p < 1 + 2 * job->desc->layers; p++) {
        const bo_separation *s = &job->separation[p];
        printf("  %-22s %10s %10s %11.1f%%\n", bo_model_activation(job->inspected.model, p), number(s->effective).s,
               number(s->within).s, 100 * s->share);
    }
}

void cli_inspect_print(const cli_inspect_job *job)
{
    print_model(job);
    print_attention(job);
    print_circuits(job);
    print_separation(job);
    print_errors(job);
    if (job->options->dump) printf("%-12s%zu files in %s\n", "Arrays", job->arrays, job->options->dump);
    if (job->options->html) printf("%-12s%s\n", "Page", job->options->html);
}
