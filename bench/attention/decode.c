/* Decoding token by token: the bandwidth of reading and writing the states, and a comparison with a KV cache. */
#include "attention.h"
#include "../reference.h"
#include <math.h>

enum {
    MIN_CURVE = 64,
    MAX_CURVE = 16384, /* maximum tokens in the cache */
    STEPS = 4,         /* steps per sample; the cache grows during a sample */
    BATCHES = 3,       /* 1, 16 and --sequences */
    FILLED = 64,       /* tokens that the linear states have absorbed before timing */
};
static const double MAX_STATE_BYTES = 4294967296.0; /* limit for all sequences together */

/* ---- bandwidth --------------------------------------------------------------------------------------------------- */

static bool triad(attention_bench *bench, double *gigabytes)
{
    bo_status status = bo_reference_triad(bench->context, 0, 3, gigabytes);
    if (status != BO_OK) cli_fail_status(bench->run->session, status);
    return status == BO_OK;
}

static bool measure_bandwidth(attention_bench *bench, size_t features)
{
    bo_attention_desc desc = attention_favor(bench, features);
    attention_decoder d;
    double seconds, before = NAN, after = NAN;
    bool ok = attention_decoder_open(bench, &desc, FILLED, &d);
    if (ok) attention_decoder_fork(bench, &d, bench->options->sequences);
    attention_work work = {bench->context, attention_decoder_step, &d, 0};
    ok = ok && triad(bench, &before) && attention_time(bench, &work, 1, &seconds, NULL) && triad(bench, &after);
    if (ok) {
        double bytes = 2.0 * (double)d.bytes * (double)d.count, rate = 1e-9 * bytes / seconds;
        char name[96];
        snprintf(name, sizeof name, "decode, %zu features, %zu sequences, states' bandwidth / triad", features,
                 d.count);
        bench_add(bench->run, name, rate / ((before + after) / 2), "", 0.7, false,
                  "%.4g ms per step; %s of states, read and written once: %.1f GB/s. Triad a = b + s c "
                  "over 1 GiB: %.1f GB/s, counting its 3 arrays but not the fetch of a before it is written",
                  1e3 * seconds, cli_bytes(bytes / 2).s, rate, (before + after) / 2);
    }
    attention_decoder_close(&d);
    return ok;
}

/* ---- comparison with a KV cache ---------------------------------------------------------------------------------- */

/* Times a state of features against a cache of `tokens` keys and values, averaged over the timed steps, for a batch of
 * `sequences` sequences. */
static bool measure_point(attention_bench *bench, attention_decoder *linear, attention_decoder *cache, size_t tokens,
                          size_t sequences, attention_crossing *crossing)
{
    attention_decoder_fork(bench, linear, sequences);
    attention_decoder_fork(bench, cache, sequences);
    attention_work works[] = {{bench->context, attention_decoder_step, linear, STEPS},
                              {bench->context, attention_decoder_step, cache, STEPS}};
    double seconds[2];
    bool ok = attention_time(bench, works, CLI_COUNT_OF(works), seconds, NULL);
    attention_decoder_drop(linear);
    attention_decoder_drop(cache);
    if (!ok) return false;
    char name[96];
    snprintf(name, sizeof name, "decode, batch %zu, %zu tokens, cache / state", sequences, tokens);
    bench_add(bench->run, name, seconds[1] / seconds[0], "x", NAN, false,
              "%.4g us per token with the cache, %.4g us with the state", 1e6 * seconds[1] / (double)sequences,
              1e6 * seconds[0] / (double)sequences);
    attention_crossing_add(crossing, tokens, seconds[0] / seconds[1]);
    return true;
}

static bool measure_length(attention_bench *bench, attention_decoder *linear, size_t tokens, const size_t *batches,
                           attention_crossing *crossings)
{
    size_t steps = 1 + STEPS * bench->options->repeats, prompt = tokens > steps / 2 ? tokens - steps / 2 : 1;
    bo_attention_desc desc = attention_exact();
    desc.capacity = prompt + steps;
    attention_decoder cache;
    bool ok = attention_decoder_open(bench, &desc, prompt, &cache);
    for (size_t i = 0; ok && i < BATCHES; i++) {
        bool fits = (double)batches[i] * (double)(cache.bytes + linear->bytes) <= MAX_STATE_BYTES;
        if (batches[i] && fits) ok = measure_point(bench, linear, &cache, tokens, batches[i], &crossings[i]);
    }
    attention_decoder_close(&cache);
    return ok;
}

static void print_break_even(attention_bench *bench, size_t features, size_t sequences,
                             const attention_crossing *crossing)
{
    if (!crossing->last) return;
    char name[96];
    /* A step reads and writes a state of D (d_v + 1) numbers; a cache is only read, d + d_v numbers per token. */
    double counted = 2.0 * (double)features * (ATTENTION_DIM + 1) / (2.0 * ATTENTION_DIM);
    snprintf(name, sizeof name, "decode, batch %zu, break-even length", sequences);
    bench_add(bench->run, name, crossing->at, "tokens", NAN, true,
              "%s; measured from %zu to %zu tokens; the numbers moved are equal at %.0f",
              isinf(crossing->at)                       ? "none: the cache is faster throughout"
              : crossing->at <= (double)crossing->first ? "at or below the shortest"
                                                        : "interpolated",
              crossing->first, crossing->last, counted);
}

static bool measure_curve(attention_bench *bench)
{
    const cli_counts *lengths = &bench->options->lengths;
    size_t longest = lengths->items[lengths->count - 1], features = bench->options->features.items[0];
    size_t sequences = bench->options->sequences;
    const size_t batches[BATCHES] = {1, sequences > 16 ? 16 : 0, sequences > 1 ? sequences : 0};
    attention_crossing crossings[BATCHES] = {{.at = INFINITY}, {.at = INFINITY}, {.at = INFINITY}};
    bo_attention_desc desc = attention_favor(bench, features);
    attention_decoder linear;
    bool ok = attention_decoder_open(bench, &desc, FILLED, &linear);
    for (size_t tokens = MIN_CURVE; ok && tokens <= MAX_CURVE && tokens <= longest; tokens *= 2)
        ok = measure_length(bench, &linear, tokens, batches, crossings);
    for (size_t i = 0; ok && i < BATCHES; i++) print_break_even(bench, features, batches[i], &crossings[i]);
    attention_decoder_close(&linear);
    return ok;
}

bool attention_decode_part(attention_bench *bench)
{
    const cli_counts *features = &bench->options->features;
    for (size_t i = 0; i < features->count; i++)
        if (!measure_bandwidth(bench, features->items[i])) return false;
    return measure_curve(bench);
}
