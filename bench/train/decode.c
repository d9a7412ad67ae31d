/* Decoding with a model: time per token by number of tokens read, and bandwidth relative to memory bandwidth. */
#include "train.h"
#include "../yardstick.h"
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
    for (size_t i = 0; i < PIECE; i++) out->ids[i] = (int32_t)(bo_hash(1, i) % desc->vocab);
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
    for (size_t seen; (seen = (size_t)bo_session_tokens(d->session)) < tokens;) {
        size_t count = tokens - seen < PIECE ? tokens - seen : PIECE;
        if (!train_ok(bench, bo_session_feed(bench->context, d->session, d->ids, count, NULL))) return false;
        if (cli_interrupted()) return false;
    }
    return true;
}

/* Seconds per token: feed it, compute its logits, choose the next one. */
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
    const bench_list *lengths = &bench->options->lengths;
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

/* A model that is too large for the cache. */
static bo_model_desc large_model(const train_bench *bench)
{
    const train_options *o = bench->options;
    bo_model_desc desc = train_model(bench, "rfa-gate");
    desc.layers = o->decode_layers;
    desc.width = o->decode_width / HEAD_DIM * HEAD_DIM;
    desc.heads = desc.width / HEAD_DIM;
    return desc;
}

static bool measure_bandwidth(train_bench *bench)
{
    const bo_model_desc desc = large_model(bench);
    decoder d;
    double seconds = NAN, before = NAN, after = NAN;
    bool ok = open_decoder(bench, &desc, BO_STORAGE_FLOAT32, &d) && read_to(bench, &d, READ_BEFORE);
    ok = ok && train_ok(bench, bo_yardstick_triad(bench->context, 0, 3, &before)) && time_tokens(bench, &d, &seconds);
    ok = ok && train_ok(bench, bo_yardstick_triad(bench->context, 0, 3, &after));
    if (ok) {
        double bytes = (double)(bo_model_bytes(d.model) + d.state_bytes), rate = 1e-9 * bytes / seconds;
        bench_add(
            bench->run, "decode, bandwidth / triad", rate / ((before + after) / 2), "", 0.8, false,
            "%zu layers, width %zu, vocabulary %zu: %s of weights and %s of state, read once per token in %.4g ms: "
            "%.1f of %.1f GB/s",
            desc.layers, desc.width, desc.vocab, cli_bytes((double)bo_model_bytes(d.model)).s,
            cli_bytes((double)d.state_bytes).s, 1e3 * seconds, rate, (before + after) / 2);
    }
    close_decoder(&d);
    return ok;
}

/* ---- weights in fewer bits --------------------------------------------------------------------------------------- */

/* The kinds of weights alternate, so that other load on the host affects all of them. */
static bool measure_weights(train_bench *bench)
{
    static const bo_storage kinds[] = {BO_STORAGE_FLOAT32, BO_STORAGE_BFLOAT16, BO_STORAGE_INT8, BO_STORAGE_INT4};
    static const double wanted[] = {1, 1.8, 3, 3};
    const bo_model_desc desc = large_model(bench);
    decoder d[CLI_COUNT_OF(kinds)] = {{0}};
    double best[CLI_COUNT_OF(kinds)] = {INFINITY, INFINITY, INFINITY, INFINITY};
    bool ok = true;
    for (size_t k = 0; ok && k < CLI_COUNT_OF(kinds); k++)
        ok = open_decoder(bench, &desc, kinds[k], &d[k]) && read_to(bench, &d[k], READ_BEFORE);
    for (size_t turn = 0; ok && turn < bench->options->repeats; turn++)
        for (size_t k = 0; ok && k < CLI_COUNT_OF(kinds); k++) {
            double seconds;
            ok = time_tokens(bench, &d[k], &seconds) && !cli_interrupted();
            if (ok) best[k] = fmin(best[k], seconds);
        }
    for (size_t k = 1; ok && k < CLI_COUNT_OF(kinds); k++) {
        char name[96];
        snprintf(name, sizeof name, "decode, %s / float32 weights", bo_storage_name(kinds[k]));
        bench_add(bench->run, name, best[0] / best[k], "x", wanted[k], false,
                  "%s of weights and %.1f tokens/s; float32: %s and %.1f",
                  cli_bytes((double)bo_model_bytes(d[k].model)).s, 1 / best[k],
                  cli_bytes((double)bo_model_bytes(d[0].model)).s, 1 / best[0]);
    }
    for (size_t k = 0; k < CLI_COUNT_OF(kinds); k++) close_decoder(&d[k]);
    return ok;
}

bool train_decode_part(train_bench *bench)
{
    return measure_lengths(bench) && measure_bandwidth(bench) && measure_weights(bench);
}
