/* Decoding with a model: time per token by number of tokens read, and bandwidth relative to memory bandwidth. */
#include "train.h"
#include "../reference.h"
#include "../../cli/shared/hash.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TIMED = 64,       /* tokens per median */
    PIECE = 1 << 14,  /* tokens fed between checks for Ctrl-C */
    READ_BEFORE = 64, /* tokens read before timing in the parts where the length does not matter */
    HEAD_DIM = 64,    /* dimension of a head of the large model */
};

typedef struct decoder {
    bo_model *model;
    bo_session *session;
    size_t vocab, state_bytes;
    bo_sampler *sampler;
    int32_t *ids;  /* array of PIECE ids */
    float *logits; /* vocab */
} decoder;

static bool open_decoder(train_bench *bench, const bo_model_desc *desc, bo_storage weights, decoder *out)
{
    *out = (decoder){.vocab = desc->vocab};
    out->ids = cli_allocate(PIECE, sizeof *out->ids, "tokens");
    out->logits = cli_allocate(desc->vocab, sizeof *out->logits, "logits");
    for (size_t i = 0; i < PIECE; i++) out->ids[i] = (int32_t)(cli_hash(1, i) % desc->vocab);
    size_t all;
    return train_ok(bench, bo_model_create(bench->context, desc, bench->tokenizer, &out->model)) &&
           train_ok(bench, bo_model_set_storage(bench->context, out->model, weights)) &&
           train_ok(bench, bo_session_create(bench->context, out->model, NULL, &out->session)) &&
           train_ok(bench, bo_sampler_create(bench->context, &(bo_sampler_desc){.greedy = true}, &out->sampler)) &&
           train_ok(bench, bo_session_estimate(bench->context, out->model, NULL, &out->state_bytes, &all));
}

static void close_decoder(decoder *d)
{
    bo_sampler_destroy(d->sampler);
    bo_session_destroy(d->session);
    bo_model_destroy(d->model);
    free(d->ids);
    free(d->logits);
}

/* Feeds tokens until the session has read `tokens`. */
static bool read_to(train_bench *bench, decoder *d, size_t tokens)
{
    for (size_t position; (position = (size_t)bo_session_tokens(d->session)) < tokens;) {
        size_t count = tokens - position < PIECE ? tokens - position : PIECE;
        if (!train_ok(bench, bo_session_feed(bench->context, d->session, d->ids, count, NULL))) return false;
        if (cli_interrupted()) return false;
    }
    return true;
}

/* Seconds per token: feed it, compute its logits, choose the next token. */
static bool time_tokens(train_bench *bench, decoder *d, double *median)
{
    double samples[TIMED];
    int32_t id = d->ids[0];
    for (size_t i = 0; i < TIMED; i++) {
        double start = cli_now();
        if (!train_ok(bench, bo_session_feed(bench->context, d->session, &id, 1, d->logits))) return false;
        id = bo_sampler_next(d->sampler, d->logits, d->vocab);
        samples[i] = cli_now() - start;
    }
    *median = bench_median(samples, TIMED);
    return true;
}

/* ---- by length --------------------------------------------------------------------------------------------------- */

static bool measure_lengths(train_bench *bench)
{
    const cli_counts *lengths = &bench->options->lengths;
    bo_model_desc desc = train_model(bench, "rfa-gate");
    bo_model_preset("tiny", &desc);
    desc.vocab = 256;
    decoder d;
    bool ok = open_decoder(bench, &desc, BO_STORAGE_FLOAT32, &d);
    double first = NAN, seconds = NAN;
    for (size_t i = 0; ok && i < lengths->count; i++) {
        ok = read_to(bench, &d, lengths->items[i]) && time_tokens(bench, &d, &seconds);
        if (!ok) break;
        if (i == 0) first = seconds;
        char name[96];
        snprintf(name, sizeof name, "decode, time per token after %zu", lengths->items[i]);
        bench_add(bench->run, name, 1e6 * seconds, "us", NAN, true,
                  "rfa-gate of the tiny shape: %zu layers, width %zu; state %s", desc.layers, desc.width,
                  cli_bytes((double)d.state_bytes).s);
    }
    if (ok)
        bench_add(bench->run, "decode, time per token, longest / shortest", seconds / first, "", 1.15, true,
                  "after %zu tokens and after %zu", lengths->items[lengths->count - 1], lengths->items[0]);
    close_decoder(&d);
    return ok;
}

/* ---- relative to memory bandwidth -------------------------------------------------------------------------------- */

enum { KINDS = 4, TRIAD_REPEATS = 7 };
static const bo_storage kinds[KINDS] = {BO_STORAGE_FLOAT32, BO_STORAGE_BFLOAT16, BO_STORAGE_INT8, BO_STORAGE_INT4};

/* A model that is too large for the second-level cache. */
static bo_model_desc large_model(const train_bench *bench)
{
    const train_options *o = bench->options;
    bo_model_desc desc = train_model(bench, "rfa-gate");
    desc.layers = o->decode_layers;
    desc.width = o->decode_width / HEAD_DIM * HEAD_DIM;
    desc.block.heads = desc.width / HEAD_DIM;
    return desc;
}

/* Bytes that are read per token: all weights and the state. */
static double bytes_per_token(const decoder *d)
{
    return (double)(bo_model_report(d->model)->bytes + d->state_bytes);
}

/* The decoders of a model with each kind of weights, and the measurements of each turn. The smaller weights, and the
 * triad over the same number of bytes, fit in some last-level caches. */
typedef struct large_decoders {
    decoder d[KINDS];
    double *seconds[KINDS], *shares[KINDS]; /* per turn: time per token, and bandwidth relative to the triad */
    double *triads[KINDS];                  /* GB/s */
} large_decoders;

/* Times tokens between two triads over the same number of bytes. */
static bool measure_turn(train_bench *bench, large_decoders *all, size_t kind, size_t turn)
{
    decoder *d = &all->d[kind];
    const double bytes = bytes_per_token(d);
    double seconds = NAN, before = NAN, after = NAN;
    if (!train_ok(bench, bo_reference_triad(bench->context, (size_t)bytes, TRIAD_REPEATS, &before)) ||
        !time_tokens(bench, d, &seconds) ||
        !train_ok(bench, bo_reference_triad(bench->context, (size_t)bytes, TRIAD_REPEATS, &after)))
        return false;
    all->seconds[kind][turn] = seconds;
    all->triads[kind][turn] = (before + after) / 2;
    all->shares[kind][turn] = 1e-9 * bytes / seconds / all->triads[kind][turn];
    return !cli_interrupted();
}

static void add_large_metrics(train_bench *bench, const bo_model_desc *desc, large_decoders *all)
{
    static const double goals[KINDS] = {1, 1.8, 3, 3};
    const size_t turns = bench->options->repeats;
    double seconds[KINDS];
    char name[96];
    for (size_t k = 0; k < KINDS; k++) {
        const decoder *d = &all->d[k];
        seconds[k] = bench_median(all->seconds[k], turns);
        snprintf(name, sizeof name, "decode, bandwidth / triad, %s weights", bo_enum_name(BO_ENUM_STORAGE, kinds[k]));
        bench_add(bench->run, name, bench_median(all->shares[k], turns), "", 0.85, false,
                  "%zu layers, width %zu, %.4g M parameters: %s of weights and %s of state in %.4g ms per token, %.1f "
                  "GB/s; triad over the same number of bytes %.1f",
                  desc->layers, desc->width, 1e-6 * (double)bo_model_report(d->model)->parameters,
                  cli_bytes((double)bo_model_report(d->model)->bytes).s, cli_bytes((double)d->state_bytes).s,
                  1e3 * seconds[k], 1e-9 * bytes_per_token(d) / seconds[k], bench_median(all->triads[k], turns));
    }
    for (size_t k = 1; k < KINDS; k++) {
        snprintf(name, sizeof name, "decode, %s / float32 weights", bo_enum_name(BO_ENUM_STORAGE, kinds[k]));
        bench_add(bench->run, name, seconds[0] / seconds[k], "x", goals[k], false,
                  "%.1f tokens/s, float32 %.1f; float32 has %.3g times as many bytes", 1 / seconds[k], 1 / seconds[0],
                  bytes_per_token(&all->d[0]) / bytes_per_token(&all->d[k]));
    }
}

/* The kinds of weights alternate, so that other load on the host affects all of them. */
static bool measure_large(train_bench *bench)
{
    const size_t turns = bench->options->repeats;
    const bo_model_desc desc = large_model(bench);
    large_decoders all = {.seconds = {NULL}};
    bool ok = true;
    for (size_t k = 0; k < KINDS; k++) {
        all.seconds[k] = cli_allocate(turns, sizeof(double), "times");
        all.shares[k] = cli_allocate(turns, sizeof(double), "times");
        all.triads[k] = cli_allocate(turns, sizeof(double), "times");
        ok = ok && open_decoder(bench, &desc, kinds[k], &all.d[k]) && read_to(bench, &all.d[k], READ_BEFORE);
    }
    for (size_t turn = 0; ok && turn < turns; turn++)
        for (size_t k = 0; ok && k < KINDS; k++) ok = measure_turn(bench, &all, k, turn);
    if (ok) add_large_metrics(bench, &desc, &all);
    for (size_t k = 0; k < KINDS; k++) {
        close_decoder(&all.d[k]);
        free(all.seconds[k]);
        free(all.shares[k]);
        free(all.triads[k]);
    }
    return ok;
}

bool train_decode_part(train_bench *bench)
{
    return measure_lengths(bench) && measure_large(bench);
}
