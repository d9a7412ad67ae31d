/* The plan and the report of attention as text. */
#include "attention.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const bo_features_desc *cli_attention_map(const cli_attention_job *job)
{
    const bo_features *map = bo_attention_features(job->attention, 0);
    return map ? bo_features_describe(map) : NULL;
}

double cli_attention_scale(const cli_attention_job *job)
{
    const bo_features_desc *map = cli_attention_map(job);
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    if (!bo_attention_has(d, BO_TRAIT_SCALE)) return NAN;
    return map && !bo_attention_has(d, BO_TRAIT_GAMMA) ? map->gamma : d->scale;
}

/* The default is 1 - 2^-(5 + h mod 8), as documented for log_decay. */
double cli_attention_decay(const cli_attention_job *job, size_t key_head)
{
    const float *given = job->call.log_decay;
    return given ? (double)expf(given[key_head]) : 1 - ldexp(1, -(int)(5 + key_head % 8));
}

void cli_attention_lambdas(const cli_attention_job *job, double *smallest, double *largest)
{
    const float *given = job->call.lambda;
    const size_t count = given ? job->desc.key_heads * job->desc.dim : 0;
    *smallest = *largest = given ? (double)given[0] : 1;
    for (size_t i = 1; i < count; i++) {
        *smallest = fmin(*smallest, (double)given[i]);
        *largest = fmax(*largest, (double)given[i]);
    }
}

double cli_attention_rate(const cli_attention_job *job)
{
    return (double)(job->call.sequences * job->call.tokens) / job->seconds;
}

bo_array cli_attention_output(const cli_attention_job *job, size_t shape[CLI_ATTENTION_RANK])
{
    const bo_array *q = job->files[CLI_Q].array;
    for (size_t i = 0; i < q->rank; i++) shape[i] = q->shape[i];
    shape[q->rank - 1] = job->desc.value_dim;
    return (bo_array){.rank = q->rank, .shape = shape, .values = job->out};
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static void report_input(cli_attention_job *job)
{
    char q[CLI_SHAPE_TEXT], k[CLI_SHAPE_TEXT], v[CLI_SHAPE_TEXT];
    cli_note(job->session, "Input       q %s, k %s, v %s", cli_shape_text(job->files[CLI_Q].array, q),
             cli_shape_text(job->files[CLI_K].array, k), cli_shape_text(job->files[CLI_V].array, v));
}

/* Appends to a list, for example ", causal". */
static void append(char *text, size_t size, const char *format, ...) BO_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* ", decays 0.9688, 0.9844", or their range if the list is long. */
static void append_decays(char *text, size_t size, const cli_attention_job *job)
{
    const size_t heads = job->desc.key_heads, few = 8;
    double smallest = 1, largest = 0;
    for (size_t i = 0; i < heads; i++) {
        smallest = fmin(smallest, cli_attention_decay(job, i));
        largest = fmax(largest, cli_attention_decay(job, i));
    }
    append(text, size, smallest < largest ? ", decays " : ", decay ");
    if (smallest == largest)
        append(text, size, "%s", cli_significant(largest, 6).s);
    else if (heads > few)
        append(text, size, "%s to %s", cli_significant(smallest, 6).s, cli_significant(largest, 6).s);
    else
        for (size_t i = 0; i < heads; i++)
            append(text, size, "%s%s", i ? ", " : "", cli_significant(cli_attention_decay(job, i), 6).s);
}

static void append_lambda(char *text, size_t size, const cli_attention_job *job)
{
    double smallest, largest;
    cli_attention_lambdas(job, &smallest, &largest);
    append(text, size, ", lambda %s", cli_significant(smallest, 4).s);
    if (smallest < largest) append(text, size, " to %s", cli_significant(largest, 4).s);
}

/* ", causal, window of 64 keys, decay gate, not normalized": all settings except the kind. */
static const char *describe_settings(const cli_attention_job *job, char *out, size_t size)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const bool sums = cli_attention_map(job) != NULL;
    const double scale = cli_attention_scale(job);
    out[0] = 0;
    if (d->causal) append(out, size, ", causal");
    if (d->window) append(out, size, ", window of %s keys", cli_count(d->window).s);
    if (d->gate != BO_GATE_NONE) append(out, size, ", %s gate", bo_enum_name(BO_ENUM_GATE, d->gate));
    if (d->gate == BO_GATE_FIXED) append_decays(out, size, job);
    if (d->normalizer == BO_NORMALIZER_NONE && sums) append(out, size, ", not normalized");
    if (d->unit) append(out, size, ", unit norms");
    if (d->temperature > 0) append(out, size, ", temperature %s", cli_significant(d->temperature, 4).s);
    if (!isnan(scale)) append(out, size, ", scale %s", cli_significant(scale, 4).s);
    if (bo_attention_has(d, BO_TRAIT_LAMBDA)) append_lambda(out, size, job);
    if (d->power > 0) append(out, size, ", degree %s", cli_significant(d->power, 6).s);
    return out;
}

/* "; 256 features of the softmax kernel (positive, orthogonal, proposal oprf)" */
static const char *describe_map(const cli_attention_job *job, char *out, size_t size)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const bo_features_desc *map = cli_attention_map(job);
    out[0] = 0;
    if (!map) return out;
    append(out, size, "; %s features of the %s kernel", cli_count(map->features).s,
           bo_enum_name(BO_ENUM_KERNEL, map->kernel));
    if (map->kernel == BO_KERNEL_POLYNOMIAL) append(out, size, " of degree %d", map->degree);
    if (!bo_features_has(map, BO_FEATURES_TRAIT_LENGTH)) return out;
    append(out, size, " (%s", bo_enum_name(BO_ENUM_FUNCTION, map->function));
    if (bo_features_frequencies(bo_attention_features(job->attention, 0)))
        append(out, size, ", %s", bo_enum_name(BO_ENUM_DRAW, map->draw));
    if (d->proposal != BO_PROPOSAL_NONE)
        append(out, size, ", proposal %s", bo_enum_name(BO_ENUM_PROPOSAL, d->proposal));
    if (d->features.sampling == BO_SAMPLING_OPTIMAL) append(out, size, ", optimal sampling");
    append(out, size, ")");
    return out;
}

static void report_attention(cli_attention_job *job)
{
    char how[400], map[200];
    cli_note(job->session, "Attention   %s%s%s", cli_attention_kind_choice(job->options->kind),
             describe_settings(job, how, sizeof how), describe_map(job, map, sizeof map));
}

/* The data of the fit. */
static void report_fit(cli_attention_job *job)
{
    const bo_attention_call *call = &job->sample.call;
    const char *file = job->options->sources[CLI_CALIBRATE_Q];
    if (!job->sample.call.q.data) return;
    if (job->unfitted)
        cli_note(job->session, "Fit         to the first %s tokens, whose outputs do not use it",
                 cli_count(job->unfitted).s);
    else
        cli_note(job->session, "Fit         to %s queries and %s keys per head%s%s",
                 cli_count(call->sequences * call->tokens).s, cli_count(call->sequences * call->key_tokens).s,
                 file ? " of " : "", file ? file : "");
}

/* Softmax attention uses tiles instead of chunks. */
static bool in_chunks(const cli_attention_job *job)
{
    return !bo_attention_has(bo_attention_describe(job->attention), BO_TRAIT_CAPACITY);
}

/* The sizes of chunks and tiles. */
static const char *pieces(const cli_attention_job *job, char *out, size_t size)
{
    const bo_attention_cost *p = &job->plan;
    out[0] = 0;
    if (in_chunks(job)) append(out, size, "chunks of %s tokens", cli_count(p->chunk).s);
    if (p->query_tile)
        append(out, size, "%stiles of %s queries x %s keys", out[0] ? ", " : "", cli_count(p->query_tile).s,
               cli_count(p->key_tile).s);
    return out;
}

static void report_plan(cli_attention_job *job)
{
    const bo_attention_cost *p = &job->plan;
    char how[160];
    cli_note(job->session, "Plan        %s, %s task%s; %s of memory besides inputs and outputs",
             pieces(job, how, sizeof how), cli_count(p->tasks).s, p->tasks == 1 ? "" : "s",
             cli_bytes((double)p->forward_bytes).s);
}

void cli_attention_report_plan(cli_attention_job *job)
{
    report_input(job);
    report_attention(job);
    report_fit(job);
    if (!job->options->plan) report_plan(job); /* with --plan it is the result */
}

/* ---- report ------------------------------------------------------------------------------------------------------ */

static void print_plan(const cli_attention_job *job)
{
    const bo_attention_cost *p = &job->plan;
    char how[160];
    printf("Plan        %s\n", pieces(job, how, sizeof how));
    printf("  %-34s%s\n", "parallel tasks", cli_count(p->tasks).s);
    printf("  %-34s%s\n", "memory of the forward pass", cli_bytes((double)p->forward_bytes).s);
    printf("  %-34s%s\n", "memory of the backward pass", cli_bytes((double)p->backward_bytes).s);
    printf("  %-34s%s\n", "memory kept between the passes", cli_bytes((double)p->tape_bytes).s);
    if (in_chunks(job)) printf("  %-34s%s\n", "tokens between saved states", cli_count(p->segment).s);
    printf("  %-34s%s\n", "state of one sequence", cli_bytes((double)bo_attention_state_bytes(job->attention)).s);
    printf("  %-34s%s, %s\n", "assumed cache sizes (L1, L2)", cli_bytes((double)p->level1_bytes).s,
           cli_bytes((double)p->level2_bytes).s);
    printf("  %-34s%s\n", "operations of the forward pass", cli_significant(p->operations, 4).s);
}

static void print_value(const char *name, double value, const char *fallback)
{
    printf("  %-34s%s\n", name, isfinite(value) ? cli_significant(value, 4).s : fallback);
}

static const char *yes(bool value)
{
    return value ? "yes" : "no";
}

static void print_dark(const bo_proposal_report *dark)
{
    printf("Proposal    frequencies fitted to the queries and keys; key head %zu has the largest variance\n",
           dark->key_head);
    printf("  %-34s%s to %s\n", "eigenvalues of the second moment", cli_significant(dark->smallest, 4).s,
           cli_significant(dark->largest, 4).s);
    print_value("share of the mean (theory: 0)", dark->mean_share, "not available");
    print_value("difference of q and k (theory: 0)", dark->mismatch, "not available");
    print_value("normality (theory: 1)", dark->normality, "not available");
    printf("  %-34s%s without, %s with the proposal\n", "finite variance", yes(dark->isotropic_finite),
           yes(dark->proposal_finite));
    printf("  %-34s%s\n", "eigenvalues clipped", cli_count(dark->clipped).s);
    print_value("log of the variance reduction", dark->log_gain,
                isnan(dark->log_gain) ? "not available: both variances are infinite" : "infinite");
}

/* The relative kernel error over independent q and k that follows from the second moment and the number of
 * frequencies. */
static void print_predicted_error(const char *name, double log_moment, size_t frequencies)
{
    print_value(name, sqrt(expm1(log_moment) / (double)frequencies), isnan(log_moment) ? "not available" : "infinite");
}

static void print_calibration(const cli_attention_job *job)
{
    const bo_calibration_report *c = &job->calibration;
    const size_t frequencies = bo_features_frequencies(bo_attention_features(job->attention, 0));
    printf("Calibration on %s rows of %s; key head %zu has the largest variance\n", cli_count((size_t)c->rows).s,
           job->options->sources[CLI_CALIBRATE_Q] ? job->options->sources[CLI_CALIBRATE_Q] : "the queries and keys",
           c->key_head);
    printf("  predicted relative error of the kernel with %s frequencies\n", cli_count(frequencies).s);
    print_predicted_error("  drawn from N(0, I)", c->log_isotropic, frequencies);
    print_predicted_error("  drawn from the proposal", c->log_drawn, frequencies);
    print_predicted_error("  lower bound", c->log_floor, frequencies);
}

static void print_solves(const bo_solves *s)
{
    const double systems = s->systems ? (double)s->systems : 1;
    printf("Solves      %s systems%s\n", cli_count((size_t)s->systems).s, s->iterations ? "" : ", solved directly");
    if (s->iterations) print_value("mean iterations per system", (double)s->iterations / systems, "not available");
    print_value("largest residual", s->largest_residual, "not available");
    if (s->iterations) printf("  %-34s%s\n", "systems solved directly", cli_count((size_t)s->refactored).s);
}

/* Times below one second are printed in milliseconds. */
static cli_short_text duration(double seconds)
{
    if (!(seconds < 1)) return cli_seconds(seconds);
    cli_short_text word;
    snprintf(word.s, sizeof word.s, "%.3g ms", 1000 * seconds);
    return word;
}

static void print_error(const cli_attention_job *job)
{
    const bo_attention_accuracy *e = &job->error;
    printf("Accuracy    relative errors over %s queries per head\n", cli_count(e->queries).s);
    print_value("output against softmax attention", e->against_softmax, "not available");
    print_value("output against the exact kernel", e->against_kernel, "no closed form");
    if (cli_attention_map(job)) {
        print_value("kernel, RMS", e->kernel_rms, "not available");
        print_value("kernel error, RMS", e->kernel_error, "not available");
        print_value("kernel error, predicted RMS", e->kernel_predicted, "not available");
    }
    printf("Cost        %-24s%-12s%s\n", "", cli_attention_kind_choice(job->options->kind), "softmax");
    printf("  %-34s%-12s%s\n", "forward pass", duration(e->kind_seconds).s, duration(e->softmax_seconds).s);
    printf("  %-34s%-12s%s\n", "memory besides inputs and outputs", cli_bytes((double)e->kind_bytes).s,
           cli_bytes((double)e->softmax_bytes).s);
}

void cli_attention_print(const cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    if (o->plan) {
        print_plan(job);
        return;
    }
    if (o->propose) print_dark(&job->dark);
    if (cli_attention_calibrates(&job->desc)) print_calibration(job);
    if (job->call.solves) print_solves(&job->solves);
    printf("Time        %s, %s tokens per second\n", duration(job->seconds).s,
           cli_count((size_t)cli_attention_rate(job)).s);
    if (o->compare) print_error(job);
    size_t shape[CLI_ATTENTION_RANK];
    const bo_array output = cli_attention_output(job, shape);
    char text[CLI_SHAPE_TEXT];
    if (o->out) printf("Output      %s: %s, float32\n", o->out, cli_shape_text(&output, text));
}
