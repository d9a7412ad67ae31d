/* bochner attention --advise: measures queries and keys, and recommends a map and its number of features. */
#include "attention.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void print_measured(const cli_attention_job *job, const bo_attention_advice *a)
{
    printf("Measured    queries and keys, multiplied by the square root of the scale\n");
    printf("  %-34s%s, %s\n", "RMS norms of queries and keys", cli_significant(a->query_norm, 4).s,
           cli_significant(a->key_norm, 4).s);
    printf("  %-34s%s to %s\n", "eigenvalues of the second moment", cli_significant(a->smallest, 4).s,
           cli_significant(a->largest, 4).s);
    printf("  %-34s%s of %zu\n", "effective dimensions", cli_significant(a->effective, 3).s, job->desc.dim);
    printf("  %-34s%s nats, %.0f%% of uniform attention\n", "entropy of softmax attention",
           cli_significant(a->entropy, 4).s, 100 * a->entropy_share);
}

/* The number of features predicted by the variance formula. */
static cli_short_text by_formula(double features)
{
    cli_short_text word;
    if (isfinite(features) && features < 1e6) return cli_count((size_t)ceil(features));
    if (isfinite(features)) return cli_significant(features, 2);
    snprintf(word.s, sizeof word.s, isnan(features) ? "not available" : "unbounded");
    return word;
}

/* Explains an error of 0. NULL: the errors are meaningful. */
static const char *nothing_measured(const cli_attention_job *job, const bo_attention_advice *a)
{
    const double rounding = 1e-6;
    size_t exact = 0;
    for (size_t i = 0; i < a->map_count; i++) {
        if (a->maps[i].error > rounding && isfinite(a->maps[i].error)) return NULL;
        exact += a->maps[i].error <= rounding;
    }
    if (!exact) return NULL;
    if (job->call.key_tokens == 1)
        return "The errors are not meaningful: every query sees one key, so every kind is exact.";
    return "The errors are not meaningful: the error is 0 even with the smallest number of features, for example "
           "because all keys or all values are equal.";
}

/* ---- options of a row -------------------------------------------------------------------------------------------- */

typedef struct option_text {
    char s[320];
    size_t used;
} option_text;

static void add(option_text *text, const char *format, ...) BO_PRINTF(2, 3);
static void add(option_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(text->s + text->used, sizeof text->s - text->used, format, args);
    va_end(args);
    if (more > 0 && text->used + (size_t)more < sizeof text->s) text->used += (size_t)more;
}

/* The name of --kind that is closest to a descriptor. */
static const char *kind_word(const bo_attention_desc *d)
{
    const char *name;
    for (size_t i = 0; (name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++) {
        bo_attention_desc named = {0};
        bo_attention_preset(name, &named);
        const bo_kernel kernel = named.features.kernel; /* ignored if the kind does not take this kernel */
        const bool kernels = kernel == d->features.kernel || !bo_attention_takes_kernel(d->kind, kernel);
        if (named.kind == d->kind && named.gate == d->gate && named.proposal == d->proposal && kernels) return name;
    }
    return bo_enum_name(BO_ENUM_ATTENTION_KIND, d->kind);
}

/* Options that the name of the descriptor does not imply. */
static void add_row(option_text *text, const bo_attention_desc *d, size_t features)
{
    const char *name = kind_word(d);
    const bo_features_desc *f = &d->features;
    bo_attention_desc plain = {0};
    bo_attention_preset(name, &plain);
    const bool estimates = bo_attention_has(d, BO_TRAIT_PROPOSAL);
    add(text, "--kind %s", name);
    if (estimates && f->function != BO_FUNCTION_POSITIVE) add(text, " --map %s", cli_attention_map_of(f->function));
    if (d->proposal != plain.proposal) add(text, " --proposal %s", bo_enum_name(BO_ENUM_PROPOSAL, d->proposal));
    if (f->sampling == BO_SAMPLING_OPTIMAL) add(text, " --sampling optimal");
    if (f->kernel == BO_KERNEL_POLYNOMIAL) add(text, " --degree %d", f->degree);
    if (bo_attention_has(d, BO_TRAIT_GAMMA) && f->kernel != BO_KERNEL_SOFTMAX)
        add(text, " --gamma %s", cli_exact(f->gamma).s);
    if (d->temperature > 0) add(text, " --temperature %s", cli_significant(d->temperature, 6).s);
    if (d->window) add(text, " --window %zu", d->window);
    if (bo_features_has(f, BO_FEATURES_TRAIT_LENGTH)) add(text, " --features %zu", features);
}

/* Options of the command line, and the scale if it is not the default. */
static void add_given(option_text *text, const cli_attention_job *job, const bo_attention_desc *d)
{
    const uint64_t seed = job->session->common.seed;
    const bool one_number = bo_attention_has(d, BO_TRAIT_ANY_KERNEL) && !bo_attention_has(d, BO_TRAIT_GAMMA);
    const double scale = one_number ? d->features.gamma : job->desc.scale;
    const bool has_scale = bo_attention_has(d, BO_TRAIT_SCALE) && scale > 0;
    if (job->desc.causal) add(text, " --causal");
    if (has_scale && scale != 1 / sqrt((double)job->desc.dim)) add(text, " --scale %s", cli_exact(scale).s);
    if (seed) add(text, " --seed %" PRIu64, seed);
}

/* The options as text for a command line. */
static option_text row_options(const cli_attention_job *job, const bo_attention_advice *a, size_t i)
{
    option_text text = {.used = 0};
    add_row(&text, &a->maps[i].desc, a->maps[i].features ? a->maps[i].features : a->maps[i].max_features);
    add_given(&text, job, &a->maps[i].desc);
    return text;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_maps(const cli_attention_job *job, const bo_attention_advice *a)
{
    printf("Maps        features needed for a relative error of %s, best first\n", cli_significant(a->target, 3).s);
    printf("  %-11s%-11s%-18s%s\n", "features", "error", "by formula", "options");
    for (size_t i = 0; i < a->map_count; i++) {
        char none[64];
        snprintf(none, sizeof none, "> %s", cli_count(a->maps[i].max_features).s);
        printf("  %-11s%-11s%-18s%s\n", a->maps[i].features ? cli_count(a->maps[i].features).s : none,
               isfinite(a->maps[i].error) ? cli_significant(a->maps[i].error, 3).s : "unbounded",
               by_formula(a->maps[i].predicted).s, row_options(job, a, i).s);
    }
}

/* Causal attention is fitted to its first tokens only, but these measurements used tokens of the whole input. */
static const char *fit_note(const cli_attention_job *job, const bo_attention_advice *a)
{
    const cli_attention_options none = {.command = "attention"};
    bool fits = false;
    for (size_t i = 0; i < a->map_count; i++) fits |= cli_attention_fits(&none, &a->maps[i].desc);
    if (!fits || !job->desc.causal) return NULL;
    return "Maps that are fitted to data were measured with a fit to tokens of the whole input. For the same error use "
           "--calibrate-q and --calibrate-k with such data.";
}

static void print_note(const char *note)
{
    if (!note) return;
    printf("            ");
    cli_print_wrapped(stdout, note, 12);
}

static void print_advice(const cli_attention_job *job, const bo_attention_advice *a)
{
    print_measured(job, a);
    print_maps(job, a);
    printf("Advice      ");
    cli_print_wrapped(stdout, a->reason, 12);
    print_note(nothing_measured(job, a));
    print_note(fit_note(job, a));
    if (a->reachable) printf("Options     %s\n", row_options(job, a, 0).s);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_row(cli_json *json, const cli_attention_job *job, const bo_attention_advice *a, size_t i)
{
    const bo_attention_desc *d = &a->maps[i].desc;
    const bool polynomial = d->features.kernel == BO_KERNEL_POLYNOMIAL;
    cli_json_object(json, NULL);
    cli_json_add_text(json, "kind", kind_word(d));
    cli_json_add_text(json, "map", cli_attention_map_of(d->features.function));
    cli_json_add_text(json, "proposal", bo_enum_name(BO_ENUM_PROPOSAL, d->proposal));
    cli_json_add_text(json, "sampling", bo_enum_name(BO_ENUM_SAMPLING, d->features.sampling));
    if (polynomial) cli_json_add_count(json, "degree", (size_t)d->features.degree);
    if (d->window) cli_json_add_count(json, "window", d->window);
    cli_json_add_count(json, "features", a->maps[i].features);
    cli_json_add_count(json, "max_features", a->maps[i].max_features);
    cli_json_add_count(json, "most", a->maps[i].max_features); /* former key */
    cli_json_add_number(json, "error", a->maps[i].error);
    cli_json_add_number(json, "predicted", a->maps[i].predicted);
    cli_json_add_text(json, "options", row_options(job, a, i).s);
    cli_json_end(json);
}

static void json_advice(const cli_attention_job *job, const bo_attention_advice *a)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_number(&json, "query_norm", a->query_norm);
    cli_json_add_number(&json, "key_norm", a->key_norm);
    cli_json_add_number(&json, "largest", a->largest);
    cli_json_add_number(&json, "smallest", a->smallest);
    cli_json_add_number(&json, "effective", a->effective);
    cli_json_add_number(&json, "entropy", a->entropy);
    cli_json_add_number(&json, "entropy_share", a->entropy_share);
    cli_json_add_number(&json, "target", a->target);
    cli_json_add_flag(&json, "reachable", a->reachable);
    cli_json_add_text(&json, "options", a->reachable ? row_options(job, a, 0).s : NULL);
    cli_json_add_text(&json, "reason", a->reason);
    cli_json_add_text(&json, "nothing_measured", nothing_measured(job, a));
    cli_json_add_text(&json, "fit_note", fit_note(job, a));
    cli_json_array(&json, "maps");
    for (size_t i = 0; i < a->map_count; i++) json_row(&json, job, a, i);
    cli_json_end(&json);
    cli_json_end(&json);
}

int cli_attention_advise(cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    bo_attention_advice *advice;
    if (!o->model) job->desc.causal = o->causal; /* a model sets both itself */
    if (!o->model || o->scale > 0) job->desc.scale = o->scale;
    job->desc.features.seed = job->session->common.seed;
    if (!cli_attention_ok(job, bo_attention_advise(job->session->context, &job->desc, &job->call, o->target,
                                                   o->max_features, &advice)))
        return CLI_FAILED;
    cli_progress_clear(&job->session->progress);
    if (job->session->common.json)
        json_advice(job, advice);
    else
        print_advice(job, advice);
    bo_attention_advice_destroy(advice);
    return CLI_DONE;
}
