/* bochner attention --advise: what the queries and keys are like, and which map with how many features would do. */
#include "attention.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void print_measured(const cli_attention_job *job, const bo_attention_advice *a)
{
    printf("Measured    of queries and keys times the root of the scale\n");
    printf("  %-34s%s, %s\n", "norms, root mean square", cli_significant(a->query_norm, 4).s,
           cli_significant(a->key_norm, 4).s);
    printf("  %-34s%s to %s\n", "eigenvalues of the second moment", cli_significant(a->smallest, 4).s,
           cli_significant(a->largest, 4).s);
    printf("  %-34s%s of %zu\n", "effective dimensions", cli_significant(a->effective, 3).s, job->desc.dim);
    printf("  %-34s%s nats, %.0f%% of even attention\n", "entropy of exact attention", cli_significant(a->entropy, 4).s,
           100 * a->entropy_share);
}

/* Features that the variance formula asks for. */
static cli_word by_formula(double features)
{
    cli_word word;
    if (isfinite(features) && features < 1e6) return cli_count((size_t)ceil(features));
    if (isfinite(features)) return cli_significant(features, 2);
    snprintf(word.s, sizeof word.s, isnan(features) ? "not known" : "no number of them");
    return word;
}

/* To the library, dark is what --propose does: positive features whose frequencies are drawn for the data. */
static const char *map_word(const bo_attention_advice *a, size_t i)
{
    return a->maps[i].kind == BO_ATTENTION_DARK ? "proposed" : cli_attention_map_of(a->maps[i].function);
}

static void print_maps(const bo_attention_advice *a)
{
    printf("Maps        for a relative error of %s, best first\n", cli_significant(a->target, 3).s);
    printf("  %-10s%-14s%-12s%-12s%s\n", "kind", "map", "features", "error", "features by the variance formula");
    for (size_t i = 0; i < a->map_count; i++) {
        char none[64];
        snprintf(none, sizeof none, "> %s", cli_count(a->maps[i].most).s);
        printf("  %-10s%-14s%-12s%-12s%s\n", bo_attention_name(a->maps[i].kind), map_word(a, i),
               a->maps[i].features ? cli_count(a->maps[i].features).s : none,
               isfinite(a->maps[i].error) ? cli_significant(a->maps[i].error, 3).s : "unbounded",
               by_formula(a->maps[i].predicted).s);
    }
}

/* The options that do what is advised to what was given, for the command line; NULL: nothing is. */
static const char *advised_options(const cli_attention_job *job, const bo_attention_advice *a, char *out, size_t room)
{
    const cli_attention_options *o = job->options;
    const uint64_t seed = job->session->common.seed;
    const bo_attention_kind kind = a->maps[0].kind;
    if (!a->reachable) return NULL;
    const bool proposed = kind == BO_ATTENTION_DARK;
    size_t used =
        (size_t)snprintf(out, room, "--kind %s%s%s --features %zu", bo_attention_name(kind),
                         proposed ? " --propose" : " --map ", proposed ? "" : map_word(a, 0), a->maps[0].features);
    if (o->causal) used += (size_t)snprintf(out + used, room - used, " --causal");
    if (o->scale > 0 && kind != BO_ATTENTION_RFA) /* which has none */
        used += (size_t)snprintf(out + used, room - used, " --scale %s", cli_exact(o->scale).s);
    if (seed) snprintf(out + used, room - used, " --seed %" PRIu64, seed);
    return out;
}

static void print_advice(const cli_attention_job *job, const bo_attention_advice *a)
{
    print_measured(job, a);
    print_maps(a);
    printf("Advice      ");
    cli_print_wrapped(stdout, a->reason, 12);
    char text[256];
    const char *options = advised_options(job, a, text, sizeof text);
    if (options) printf("Options     %s\n", options);
}

static void json_advice(const cli_attention_job *job, const bo_attention_advice *a)
{
    char text[256];
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_number(&json, "query_norm", a->query_norm);
    cli_json_number(&json, "key_norm", a->key_norm);
    cli_json_number(&json, "largest", a->largest);
    cli_json_number(&json, "smallest", a->smallest);
    cli_json_number(&json, "effective", a->effective);
    cli_json_number(&json, "entropy", a->entropy);
    cli_json_number(&json, "entropy_share", a->entropy_share);
    cli_json_number(&json, "target", a->target);
    cli_json_flag(&json, "reachable", a->reachable);
    cli_json_array(&json, "maps");
    for (size_t i = 0; i < a->map_count; i++) {
        cli_json_object(&json, NULL);
        cli_json_text(&json, "kind", bo_attention_name(a->maps[i].kind));
        cli_json_text(&json, "map", map_word(a, i));
        cli_json_count(&json, "features", a->maps[i].features);
        cli_json_count(&json, "most", a->maps[i].most);
        cli_json_number(&json, "error", a->maps[i].error);
        cli_json_number(&json, "predicted", a->maps[i].predicted);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_text(&json, "reason", a->reason);
    cli_json_text(&json, "options", advised_options(job, a, text, sizeof text));
    cli_json_end(&json);
}

int cli_attention_advise(cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    bo_attention_advice advice;
    job->desc.causal = o->causal;
    job->desc.scale = o->scale;
    job->desc.features.seed = job->session->common.seed;
    if (!cli_attention_ok(job, bo_attention_advise(job->session->context, &job->desc, &job->shape, job->inputs.q,
                                                   job->inputs.k, job->inputs.v, o->target,
                                                   o->most == CLI_NOT_GIVEN ? 0 : o->most, &advice)))
        return CLI_FAILED;
    cli_progress_clear(&job->session->progress);
    if (job->session->common.json)
        json_advice(job, &advice);
    else
        print_advice(job, &advice);
    return CLI_DONE;
}
