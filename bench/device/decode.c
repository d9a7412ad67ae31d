/* Greedy batch decoding on the device, after each sequence has read a number of tokens. */
#include "../../src/model/lanes.h"
#include "device.h"
#include "../../cli/shared/hash.h"
#include <bochner/tasks.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARMUPS = 2, STEPS = 32, PIECE = 1 << 13 }; /* STEPS: steps per sample; PIECE: tokens per read */

typedef struct decoding {
    const device_decode_options *options;
    bo_tokenizer *tokenizer;
    bo_model *model;
    bo_lanes *lanes;
    int32_t *ids; /* the last token of each sequence, or the tokens to read */
} decoding;

static bo_model_desc model_of(const device_decode_options *o, const char *kind)
{
    bo_model_desc desc = {.layers = o->layers, .width = o->width, .block.heads = o->heads};
    desc.vocab = o->vocab;
    desc.context = o->lengths->items[o->lengths->count - 1] + (WARMUPS + DEVICE_REPEATS) * (size_t)STEPS;
    bo_attention_preset(kind, &desc.block.attention);
    return desc;
}

static size_t capacity_of(const device_bench *bench, size_t tokens)
{
    return tokens + (WARMUPS + bench->repeats) * STEPS;
}

/* The first lane reads, and the other lanes become copies of it. */
static bool read_tokens(device_bench *bench, decoding *d, size_t tokens)
{
    const device_decode_options *o = d->options;
    for (size_t done = 0; done < tokens;) {
        const size_t count = tokens - done < PIECE ? tokens - done : PIECE;
        for (size_t i = 0; i < count; i++) d->ids[i] = (int32_t)(cli_hash(1, done + i) % o->vocab);
        if (!device_ok(bench, bo_lanes_feed(bench->context, d->lanes, 0, d->ids, count, NULL))) return false;
        done += count;
    }
    size_t *from = cli_allocate(o->sequences, sizeof *from, "lanes"); /* zeros: the first lane */
    for (size_t i = 0; i < o->sequences; i++) from[i] = 0;
    const bool ok = device_ok(bench, bo_lanes_choose(bench->context, d->lanes, o->sequences, from));
    free(from);
    for (size_t i = 0; i < o->sequences; i++) d->ids[i] = (int32_t)(i % o->vocab);
    return ok;
}

static bool step(device_bench *bench, void *what, double *seconds)
{
    decoding *d = what;
    const double start = cli_now();
    for (size_t i = 0; i < STEPS; i++)
        if (!device_ok(bench, bo_lanes_step_greedy(bench->context, d->lanes, d->options->sequences, d->ids, d->ids)))
            return false;
    *seconds = (cli_now() - start) / STEPS;
    return true;
}

/* Bytes that a step reads and writes: the weights, and the state of each sequence, which is read and written unless it
 * is a cache of keys. */
static double bytes_of(const decoding *d)
{
    const bool cache = bo_model_describe(d->model)->block.attention.kind == BO_ATTENTION_SOFTMAX;
    const double states = (double)(d->options->sequences * bo_lanes_state_bytes(d->lanes));
    return (double)bo_model_report(d->model)->bytes + (cache ? 1 : 2) * states;
}

static void report(device_bench *bench, const decoding *d, const char *kind, size_t tokens, double seconds)
{
    const device_decode_options *o = d->options;
    const double bytes = bytes_of(d);
    char name[96];
    snprintf(name, sizeof name, "%s, decode %zu sequences after %zu tokens", kind, o->sequences, tokens);
    bench_add(
        bench->run, name, (double)o->sequences / seconds, "tokens/s", NAN, false,
        "%.4g ms per step, %s parameters; %s of weights, %s of state per sequence; %.4g GB/s (%.2f of a copy); %s in "
        "use",
        1e3 * seconds, cli_count((size_t)bo_model_report(d->model)->parameters).s,
        cli_bytes((double)bo_model_report(d->model)->bytes).s, cli_bytes((double)bo_lanes_state_bytes(d->lanes)).s,
        1e-9 * bytes / seconds, bytes / seconds / bench->copied, cli_bytes(device_used(bench)).s);
}

static bool measure_length(device_bench *bench, decoding *d, const char *kind, size_t tokens)
{
    const bo_lanes_desc lanes = {.count = d->options->sequences, .capacity = capacity_of(bench, tokens)};
    const bo_status status = bo_lanes_create(bench->context, d->model, &lanes, &d->lanes);
    if (status == BO_MEMORY) {
        cli_warn(bench->run->session, "%s, %zu tokens: %s", kind, tokens, bo_context_error(bench->context));
        return true;
    }
    double seconds;
    const bool ok = device_ok(bench, status) && read_tokens(bench, d, tokens) &&
                    device_time_steps(bench, WARMUPS, step, d, &seconds);
    if (ok) report(bench, d, kind, tokens, seconds);
    bo_lanes_destroy(d->lanes);
    d->lanes = NULL;
    return ok;
}

static bool measure_kind(device_bench *bench, const char *kind, void *of)
{
    decoding *d = of;
    const device_decode_options *o = d->options;
    const bo_model_desc desc = model_of(o, kind);
    bool ok = device_ok(bench, bo_model_create(bench->context, &desc, d->tokenizer, &d->model));
    if (ok && bench->storage == BO_ELEMENT_BFLOAT16)
        ok = device_ok(bench, bo_model_set_storage(bench->context, d->model, BO_STORAGE_BFLOAT16));
    for (size_t i = 0; ok && i < o->lengths->count; i++) ok = measure_length(bench, d, kind, o->lengths->items[i]);
    bo_model_destroy(d->model);
    d->model = NULL;
    return ok;
}

int device_decode(bench_run *run, const device_decode_options *options)
{
    device_bench bench;
    decoding d = {.options = options};
    const size_t ids = options->sequences > PIECE ? options->sequences : PIECE;
    d.ids = cli_allocate(ids, sizeof *d.ids, "tokens");
    bool ok = device_open(run, options->device, options->precision, options->repeats, &bench) &&
              device_references(&bench) && device_ok(&bench, bo_tokenizer_create(bench.context, &d.tokenizer)) &&
              device_each_kind(&bench, options->device->kinds ? options->device->kinds : "rfa-gate", measure_kind, &d);
    bo_tokenizer_destroy(d.tokenizer);
    free(d.ids);
    device_close(&bench);
    return ok ? CLI_DONE : CLI_FAILED;
}
