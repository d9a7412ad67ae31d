/* Decoding steps: a KV cache compared with a state of fixed size, by number of tokens read and number of sequences. */
#include "../../src/model/lanes.h"
#include <bochner/tasks.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "../attention/attention.h"
#include "tasks.h"
#include "../../cli/shared/hash.h"

enum { KINDS = 2, TIMED = 8, MAX_REPEATS = 99, GOAL_LENGTH = 2048, GOAL_BATCH = 64 }; /* TIMED: steps per sample */
static const char *const kinds[KINDS] = {"softmax", "rfa"};
static const double GOAL = 4; /* times faster than softmax attention */

typedef struct decoder {
    bo_model *model;
    bo_lanes *lanes;
} decoder;

/* Buffers of a batch of sequences. */
typedef struct table {
    tasks_bench *bench;
    size_t batch, vocab;
    int32_t *ids;  /* batch */
    float *logits; /* batch x vocab */
    size_t *from;  /* batch + 1: for each lane, the source lane of its copy */
} table;

static bool open_decoder(tasks_bench *bench, const char *kind, size_t lanes, size_t capacity, decoder *out)
{
    bo_model_desc desc = tasks_model(bench, kind, capacity);
    const bo_lanes_desc size = {.count = lanes, .capacity = capacity};
    *out = (decoder){0};
    return tasks_ok(bench, bo_model_create(bench->context, &desc, bench->tokenizer, &out->model)) &&
           tasks_ok(bench, bo_lanes_create(bench->context, out->model, &size, &out->lanes));
}

static void close_decoder(decoder *d)
{
    bo_lanes_destroy(d->lanes);
    bo_model_destroy(d->model);
}

/* ---- one batch --------------------------------------------------------------------------------------------------- */

/* Makes all lanes copies of one lane. */
static bool copy_lane(table *t, decoder *d, size_t lane)
{
    for (size_t i = 0; i <= t->batch; i++) t->from[i] = lane;
    return tasks_ok(t->bench, bo_lanes_choose(t->bench->context, d->lanes, t->batch + 1, t->from));
}

/* Lane 0 reads `tokens` one by one; the last lane keeps a copy of the result. */
static bool read_to(table *t, decoder *d, size_t tokens)
{
    for (size_t i = 0; i < tokens; i++) {
        const int32_t id = (int32_t)('a' + cli_hash(1, i) % 26);
        if (!tasks_ok(t->bench, bo_lanes_step(t->bench->context, d->lanes, 1, &id, NULL))) return false;
        if (cli_interrupted()) return false;
    }
    return copy_lane(t, d, 0);
}

/* Chooses the most likely token of each lane as its next token. */
static void choose_next(table *t)
{
    for (size_t i = 0; i < t->batch; i++) {
        const float *row = t->logits + i * t->vocab;
        int32_t best = 0;
        for (size_t j = 1; j < t->vocab; j++)
            if (row[j] > row[best]) best = (int32_t)j;
        t->ids[i] = best;
    }
}

/* Seconds per step: one token for each lane, logits, choice of the next token. Lanes start as copies of the last
 * lane. */
static bool time_steps(table *t, decoder *d, double *seconds)
{
    if (!copy_lane(t, d, t->batch)) return false;
    double start = cli_now();
    for (size_t i = 0; i < TIMED; i++) {
        if (!tasks_ok(t->bench, bo_lanes_step(t->bench->context, d->lanes, t->batch, t->ids, t->logits))) return false;
        choose_next(t);
    }
    *seconds = (cli_now() - start) / TIMED;
    return true;
}

/* Medians of each, in alternation, after one warmup call. */
static bool time_in_turns(table *t, decoder of[KINDS], double seconds[KINDS])
{
    double samples[KINDS][MAX_REPEATS + 1];
    size_t repeats = t->bench->options->repeats;
    for (size_t turn = 0; turn <= repeats; turn++)
        for (size_t k = 0; k < KINDS; k++)
            if (!time_steps(t, &of[k], &samples[k][turn]) || cli_interrupted()) return false;
    for (size_t k = 0; k < KINDS; k++) seconds[k] = bench_median(samples[k] + 1, repeats);
    return true;
}

/* The caches have exactly the required capacity: densely stored keys are read faster. */
static bool time_at(table *t, size_t tokens, double seconds[KINDS])
{
    decoder of[KINDS] = {{0}};
    bool ok = true;
    for (size_t k = 0; ok && k < KINDS; k++)
        ok = open_decoder(t->bench, kinds[k], t->batch + 1, tokens + TIMED, &of[k]) && read_to(t, &of[k], tokens);
    ok = ok && time_in_turns(t, of, seconds);
    for (size_t k = 0; k < KINDS; k++) close_decoder(&of[k]);
    return ok;
}

static void report_length(table *t, size_t tokens, const double seconds[KINDS])
{
    tasks_bench *bench = t->bench;
    char name[96];
    for (size_t k = 0; k < KINDS; k++) {
        snprintf(name, sizeof name, "%s, batch %zu", k ? kinds[k] : "softmax", t->batch);
        cli_curves_add(&bench->times, name, (double)tokens, seconds[k]);
    }
    bool counts = tokens == GOAL_LENGTH && t->batch == GOAL_BATCH;
    snprintf(name, sizeof name, "decode, batch %zu after %zu tokens, times faster", t->batch, tokens);
    bench_add(bench->run, name, seconds[0] / seconds[1], "x", counts ? GOAL : NAN, false,
              "rfa, %zu features: %.4g ms per step, softmax %.4g ms: %.0f and %.0f tokens/s", bench->options->features,
              1e3 * seconds[1], 1e3 * seconds[0], (double)t->batch / seconds[1], (double)t->batch / seconds[0]);
}

static void report_even(table *t, const attention_crossing *crossing)
{
    char name[96], where[64];
    snprintf(name, sizeof name, "decode, batch %zu, rfa overtakes softmax after", t->batch);
    if (isinf(crossing->at))
        snprintf(where, sizeof where, "none up to %zu", crossing->last);
    else if (crossing->at <= (double)crossing->first)
        snprintf(where, sizeof where, "at the shortest length tried");
    else
        snprintf(where, sizeof where, "interpolated between two lengths");
    bench_add(t->bench->run, name, crossing->at, "tokens", NAN, true, "%s", where);
}

static bool measure_lengths(table *t)
{
    const cli_counts *lengths = &t->bench->options->lengths;
    attention_crossing crossing = {.at = INFINITY};
    for (size_t i = 0; i < lengths->count; i++) {
        double seconds[KINDS];
        if (!time_at(t, lengths->items[i], seconds)) return false;
        report_length(t, lengths->items[i], seconds);
        attention_crossing_add(&crossing, lengths->items[i], seconds[1] / seconds[0]);
    }
    report_even(t, &crossing);
    return true;
}

static bool measure_batch(tasks_bench *bench, size_t batch)
{
    table t = {.bench = bench, .batch = batch, .vocab = bo_tokenizer_describe(bench->tokenizer)->vocab};
    t.ids = cli_allocate(batch, sizeof *t.ids, "tokens");
    t.logits = cli_allocate(batch * t.vocab, sizeof *t.logits, "logits");
    t.from = cli_allocate(batch + 1, sizeof *t.from, "lanes");
    for (size_t i = 0; i < batch; i++) t.ids[i] = (int32_t)('a' + i % 26);
    bool ok = measure_lengths(&t);
    free(t.ids);
    free(t.logits);
    free(t.from);
    return ok;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Bytes of a sequence with capacity for the longest length, divided by those with capacity for the shortest. */
static bool measure_memory(tasks_bench *bench)
{
    const cli_counts *lengths = &bench->options->lengths;
    const size_t ends[] = {lengths->items[0], lengths->items[lengths->count - 1]};
    for (size_t k = 0; k < KINDS; k++) {
        size_t bytes[CLI_COUNT_OF(ends)];
        for (size_t i = 0; i < CLI_COUNT_OF(ends); i++) {
            decoder d;
            bool ok = open_decoder(bench, kinds[k], 1, ends[i], &d);
            bytes[i] = ok ? bo_lanes_state_bytes(d.lanes) : 0;
            close_decoder(&d);
            if (!ok) return false;
        }
        char name[96];
        snprintf(name, sizeof name, "decode, state of %s at %zu / at %zu", k ? kinds[k] : "softmax", ends[1], ends[0]);
        bench_add(bench->run, name, (double)bytes[1] / (double)bytes[0], "x", k ? 1 : NAN, true,
                  "bytes per sequence: %s and %s", cli_bytes((double)bytes[1]).s, cli_bytes((double)bytes[0]).s);
    }
    return true;
}

bool tasks_decode_part(tasks_bench *bench)
{
    const cli_counts *batches = &bench->options->batches;
    cli_note(bench->run->session,
             "decode: one sequence is read token by token, untimed; the others start as copies of it");
    for (size_t i = 0; i < batches->count; i++)
        if (!measure_batch(bench, batches->items[i])) return false;
    return measure_memory(bench);
}
