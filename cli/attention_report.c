/* What attention will do and what it did, for people and as JSON. */
#include "attention.h"
#include <math.h>
#include <stdio.h>

static const bo_features_desc *map_of(const cli_attention_job *job)
{
    const bo_features *map = bo_attention_features(job->attention, 0);
    return map ? bo_features_describe(map) : NULL;
}

/* The map has frequencies. */
static bool drawn(const cli_attention_job *job)
{
    const bo_features *map = bo_attention_features(job->attention, 0);
    return map && bo_features_frequencies(map) > 0;
}

/* s of exp(s q·k), or γ of the map; a kind without either has none. */
static double scale_of(const cli_attention_job *job)
{
    const bo_features_desc *map = map_of(job);
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    if (d->kind == BO_ATTENTION_RFA) return NAN;
    return map && d->kind != BO_ATTENTION_HYBRID ? map->gamma : d->scale;
}

static double tokens_per_second(const cli_attention_job *job)
{
    return (double)(job->shape.sequences * job->shape.tokens) / job->seconds;
}

static bo_array output_shape(const cli_attention_job *job)
{
    bo_array shape = *job->q.array;
    shape.shape[shape.rank - 1] = job->desc.value_dim;
    return shape;
}

/* ---- before --------------------------------------------------------------------------------------------- */

static void say_input(cli_attention_job *job)
{
    char q[BO_ARRAY_TEXT], k[BO_ARRAY_TEXT], v[BO_ARRAY_TEXT];
    cli_say(job->session, "Input       q %s, k %s, v %s", bo_array_shape(job->q.array, q),
            bo_array_shape(job->k.array, k), bo_array_shape(job->v.array, v));
}

/* ", causal, window of 64, gate decay, not normalised": what was asked beyond the kind. */
static const char *manner(const bo_attention_desc *d, char *out, size_t room)
{
    size_t used = (size_t)snprintf(out, room, "%s", d->causal ? ", causal" : "");
    if (d->window) used += (size_t)snprintf(out + used, room - used, ", window of %s keys", cli_count(d->window).s);
    if (d->gate != BO_GATE_NONE) used += (size_t)snprintf(out + used, room - used, ", %s gate", bo_gate_name(d->gate));
    if (d->normaliser == BO_NORMALISER_NONE) snprintf(out + used, room - used, ", not normalised");
    return out;
}

static void say_attention(cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const bo_features_desc *map = map_of(job);
    const char *kind = cli_attention_kind_choice(job->options->kind);
    const double scale = scale_of(job);
    char how[160];
    manner(d, how, sizeof how);
    const cli_word number = cli_significant(isnan(scale) ? d->temperature : scale, 4);
    const char *word = isnan(scale) ? "temperature" : "scale";
    if (!map)
        cli_say(job->session, "Attention   %s%s, %s %s", kind, how, word, number.s);
    else if (!drawn(job))
        cli_say(job->session, "Attention   %s%s, %s %s; %s features of the %s kernel", kind, how, word, number.s,
                cli_count(map->features).s, bo_kernel_name(map->kernel));
    else
        cli_say(job->session, "Attention   %s%s, %s %s; %s features of the %s kernel (%s, %s)", kind, how, word,
                number.s, cli_count(map->features).s, bo_kernel_name(map->kernel), bo_function_name(map->function),
                bo_draw_name(map->draw));
}

/* Tokens at a time, by the kind. */
static const char *pieces(const cli_attention_job *job, char *out, size_t room)
{
    const bo_attention_plan *p = &job->plan;
    size_t used = 0;
    out[0] = 0;
    if (map_of(job)) used = (size_t)snprintf(out, room, "chunks of %s tokens", cli_count(p->chunk).s);
    if (p->query_tile)
        snprintf(out + used, room - used, "%stiles of %s queries x %s keys", used ? ", " : "",
                 cli_count(p->query_tile).s, cli_count(p->key_tile).s);
    return out;
}

static void say_plan(cli_attention_job *job)
{
    const bo_attention_plan *p = &job->plan;
    char how[160];
    cli_say(job->session, "Plan        %s, %s task%s; %s beyond inputs and outputs", pieces(job, how, sizeof how),
            cli_count(p->tasks).s, p->tasks == 1 ? "" : "s", cli_bytes((double)p->forward_bytes).s);
}

void cli_attention_say(cli_attention_job *job)
{
    say_input(job);
    say_attention(job);
    if (!job->options->plan) say_plan(job); /* else it is the result */
}

/* ---- after, for people ---------------------------------------------------------------------------------- */

static void print_plan(const cli_attention_job *job)
{
    const bo_attention_plan *p = &job->plan;
    char how[160];
    printf("Plan        %s\n", pieces(job, how, sizeof how));
    printf("  %-34s%s\n", "tasks that may run at once", cli_count(p->tasks).s);
    printf("  %-34s%s\n", "memory, forward", cli_bytes((double)p->forward_bytes).s);
    printf("  %-34s%s\n", "memory, backward", cli_bytes((double)p->backward_bytes).s);
    printf("  %-34s%s\n", "tape between them", cli_bytes((double)p->tape_bytes).s);
    if (map_of(job)) printf("  %-34s%s\n", "tokens between states on the tape", cli_count(p->segment).s);
    printf("  %-34s%s\n", "a state", cli_bytes((double)bo_attention_state_bytes(job->attention)).s);
    printf("  %-34s%s, %s\n", "caches it was made for", cli_bytes((double)p->level1_bytes).s,
           cli_bytes((double)p->level2_bytes).s);
    printf("  %-34s%s\n", "operations of the forward pass", cli_significant(p->operations, 4).s);
}

static void print_figure(const char *name, double value, const char *otherwise)
{
    printf("  %-34s%s\n", name, isfinite(value) ? cli_significant(value, 4).s : otherwise);
}

static const char *yes(bool value)
{
    return value ? "yes" : "no";
}

static void print_dark(const bo_dark_report *dark)
{
    printf("Proposal    frequencies drawn for these queries and keys; key head %zu is the hardest\n", dark->key_head);
    printf("  %-34s%s to %s\n", "eigenvalues of the second moment", cli_significant(dark->smallest, 4).s,
           cli_significant(dark->largest, 4).s);
    print_figure("share of the mean (theory: 0)", dark->mean_share, "not known");
    print_figure("q and k differ by (theory: 0)", dark->mismatch, "not known");
    print_figure("normality (theory: 1)", dark->normality, "not known");
    printf("  %-34s%s as they are, %s with the proposal\n", "finite variance", yes(dark->isotropic_finite),
           yes(dark->proposal_finite));
    printf("  %-34s%s\n", "eigenvalues lowered for it", cli_count(dark->clipped).s);
    print_figure("log of the gain", dark->log_gain, isnan(dark->log_gain) ? "not known: both infinite" : "infinite");
}

/* Short passes are told in milliseconds. */
static cli_word duration(double seconds)
{
    if (!(seconds < 1)) return cli_seconds(seconds);
    cli_word word;
    snprintf(word.s, sizeof word.s, "%.3g ms", 1000 * seconds);
    return word;
}

static void print_error(const cli_attention_job *job)
{
    const bo_attention_error *e = &job->error;
    printf("Accuracy    relative errors, over %s queries of each head\n", cli_count(e->queries).s);
    print_figure("output against exact softmax", e->against_softmax, "not known");
    print_figure("output against its own kernel", e->against_kernel, "not known");
    if (map_of(job)) {
        print_figure("kernel, root mean square", e->kernel_rms, "not known");
        print_figure("error of the kernel", e->kernel_error, "not known");
        print_figure("predicted by the variance", e->kernel_predicted, "not known");
    }
    printf("Cost        %-24s%-12s%s\n", "", cli_attention_kind_choice(job->options->kind), "exact softmax");
    printf("  %-34s%-12s%s\n", "forward pass", duration(e->kind_seconds).s, duration(e->softmax_seconds).s);
    printf("  %-34s%-12s%s\n", "memory beyond inputs and outputs", cli_bytes((double)e->kind_bytes).s,
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
    printf("Time        %s, %s tokens a second\n", duration(job->seconds).s,
           cli_count((size_t)tokens_per_second(job)).s);
    if (o->compare) print_error(job);
    const bo_array shape = output_shape(job);
    char text[BO_ARRAY_TEXT];
    if (o->out) printf("Output      %s: %s, float32\n", o->out, bo_array_shape(&shape, text));
}

/* ---- after, as JSON ------------------------------------------------------------------------------------- */

static void json_shape(cli_json *json, const char *key, const bo_array *array)
{
    cli_json_array(json, key);
    for (size_t i = 0; i < array->rank; i++) cli_json_count(json, NULL, array->shape[i]);
    cli_json_end(json);
}

static void json_descriptor(cli_json *json, const cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const bo_features_desc *map = map_of(job);
    cli_json_text(json, "kind", cli_attention_kind_choice(job->options->kind));
    cli_json_count(json, "sequences", job->shape.sequences);
    cli_json_count(json, "heads", d->heads);
    cli_json_count(json, "key_heads", d->key_heads);
    cli_json_count(json, "tokens", job->shape.tokens);
    cli_json_count(json, "key_tokens", job->shape.key_tokens);
    cli_json_count(json, "dim", d->dim);
    cli_json_count(json, "value_dim", d->value_dim);
    cli_json_flag(json, "causal", d->causal);
    cli_json_number(json, "scale", scale_of(job));
    if (d->kind == BO_ATTENTION_RFA) cli_json_number(json, "temperature", d->temperature);
    if (d->kind == BO_ATTENTION_DARK) cli_json_count(json, "rank", d->rank);
    if (d->window) cli_json_count(json, "window", d->window);
    cli_json_text(json, "gate", bo_gate_name(d->gate));
    cli_json_text(json, "normaliser", cli_attention_normaliser_choice((int)d->normaliser));
    if (!map) return;
    cli_json_text(json, "kernel", bo_kernel_name(map->kernel));
    cli_json_text(json, "function", bo_function_name(map->function));
    if (drawn(job)) cli_json_text(json, "draw", bo_draw_name(map->draw));
    cli_json_count(json, "features", map->features);
    cli_json_flag(json, "one_draw", d->one_draw);
}

static void json_plan(cli_json *json, const cli_attention_job *job)
{
    const bo_attention_plan *p = &job->plan;
    cli_json_object(json, "plan");
    cli_json_count(json, "chunk", p->chunk);
    cli_json_count(json, "segment", p->segment);
    cli_json_count(json, "query_tile", p->query_tile);
    cli_json_count(json, "key_tile", p->key_tile);
    cli_json_count(json, "tasks", p->tasks);
    cli_json_count(json, "forward_bytes", p->forward_bytes);
    cli_json_count(json, "backward_bytes", p->backward_bytes);
    cli_json_count(json, "tape_bytes", p->tape_bytes);
    cli_json_count(json, "state_bytes", bo_attention_state_bytes(job->attention));
    cli_json_count(json, "level1_bytes", p->level1_bytes);
    cli_json_count(json, "level2_bytes", p->level2_bytes);
    cli_json_number(json, "operations", p->operations);
    cli_json_end(json);
}

static void json_dark(cli_json *json, const bo_dark_report *dark)
{
    cli_json_object(json, "proposal");
    cli_json_count(json, "key_head", dark->key_head);
    cli_json_number(json, "largest", dark->largest);
    cli_json_number(json, "smallest", dark->smallest);
    cli_json_number(json, "mean_share", dark->mean_share);
    cli_json_number(json, "mismatch", dark->mismatch);
    cli_json_number(json, "normality", dark->normality);
    cli_json_flag(json, "isotropic_finite", dark->isotropic_finite);
    cli_json_flag(json, "proposal_finite", dark->proposal_finite);
    cli_json_count(json, "clipped", dark->clipped);
    cli_json_number(json, "log_gain", dark->log_gain);
    cli_json_end(json);
}

static void json_error(cli_json *json, const bo_attention_error *e)
{
    cli_json_object(json, "compare");
    cli_json_count(json, "queries", e->queries);
    cli_json_number(json, "against_softmax", e->against_softmax);
    cli_json_number(json, "against_kernel", e->against_kernel);
    cli_json_number(json, "kernel_rms", e->kernel_rms);
    cli_json_number(json, "kernel_error", e->kernel_error);
    cli_json_number(json, "kernel_predicted", e->kernel_predicted);
    cli_json_number(json, "kind_seconds", e->kind_seconds);
    cli_json_number(json, "softmax_seconds", e->softmax_seconds);
    cli_json_count(json, "kind_bytes", e->kind_bytes);
    cli_json_count(json, "softmax_bytes", e->softmax_bytes);
    cli_json_end(json);
}

void cli_attention_json(const cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    json_descriptor(&json, job);
    json_plan(&json, job);
    if (!o->plan) {
        const bo_array shape = output_shape(job);
        cli_json_number(&json, "seconds", job->seconds);
        cli_json_number(&json, "tokens_per_second", tokens_per_second(job));
        cli_json_text(&json, "out", o->out);
        json_shape(&json, "shape", &shape);
        cli_json_count(&json, "zero_outputs", job->zeros);
        if (o->propose) json_dark(&json, &job->dark);
        if (o->compare) json_error(&json, &job->error);
    }
    cli_json_count(&json, "threads", (size_t)bo_context_threads(job->session->context));
    cli_json_text(&json, "isa", bo_context_isa(job->session->context));
    cli_json_end(&json);
}
