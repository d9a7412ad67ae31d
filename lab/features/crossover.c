/* crossover: the sequence length above which attention with random features is cheaper than softmax attention on this
 * host. */
#include "../experiment.h"
#include <bochner/attention.h>
#include <math.h>
#include <string.h>

enum {
    DIM = 64,
    FEATURES = 128,
    TRAIN_HEADS = 2,
    DECODE_HEADS = 8,
    KINDS = 3,
    MAX_LENGTHS = 10,
    SAMPLES = 5,
    STEPS = 16
};

static const bo_lab_claim claims[] = {
    {.name = "exact-growth",
     .statement = "The time of a forward and backward pass of softmax attention grows as the square of the sequence "
                  "length.",
     .number = "exponent of the time as a power of the length, fitted over the three longest lengths",
     .rule = BO_LAB_BETWEEN,
     .bound = 1.8,
     .upper = 2.2,
     .passage =
         LAB_REVIEW "line 11: \"softmax attention in transformer architectures requies quadratic complexity with "
                    "respect to sequence length\""},
    {.name = "linear-growth",
     .statement = "The time of a forward and backward pass of attention with random features grows linearly with the "
                  "sequence length.",
     .number = "exponent of the time as a power of the length, fitted over the three longest lengths",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1,
     .passage = LAB_REVIEW "line 49: \"the attention computation can be reduced to linear complexity with respect to "
                           "sequence leangth\""},
    {.name = "training",
     .statement = "In training, the sequence length at which both take the same time is within a factor of two of the "
                  "length at which their operation counts are equal.",
     .number = "measured crossover length divided by the length at which the operation counts are equal",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.5,
     .upper = 2},
    {.name = "decoding",
     .statement =
         "In decoding, the length from which a fixed-size state is faster than a KV cache is within a factor of two "
         "of the length at which both move the same amount of data.",
     .number = "measured crossover length divided by the length at which the amounts of data are equal",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.5,
     .upper = 2},
    {.name = "decoding-flat",
     .statement = "The time to decode one token from a fixed-size state does not depend on the number of earlier "
                  "tokens.",
     .number = "seconds per token after the longest text divided by seconds per token after the shortest",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.2},
    {.name = "state",
     .statement = "The size of the state is the same at every length.",
     .number = "bytes of state after the longest text divided by bytes after the shortest, minus 1",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "memory",
     .statement =
         "Tiled softmax attention never stores all scores: its memory beyond the inputs grows linearly with the "
         "length.",
     .number = "exponent of the memory as a power of the length, fitted over the three longest lengths",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.1,
     .source = "FlashAttention (arXiv 2205.14135)"},
};

static const bo_lab_table tables[] = {
    {.name = "training",
     .title = "Time of a forward and backward pass of one layer (2 heads of dimension 64)",
     .rows = "tokens",
     .values = "microseconds per token",
     .log_x = true,
     .log_y = true},
    {.name = "memory",
     .title = "Memory used in training beyond the inputs",
     .rows = "tokens",
     .values = "bytes per token and head",
     .log_x = true,
     .log_y = true,
     .theory = "all scores"},
    {.name = "decoding",
     .title = "Time to decode one token after a number of earlier tokens (8 heads of dimension 64)",
     .rows = "earlier tokens",
     .values = "microseconds",
     .log_x = true,
     .log_y = true},
    {.name = "state",
     .title = "Size of the decoding state (8 heads of dimension 64)",
     .rows = "earlier tokens",
     .values = "kB",
     .log_x = true,
     .log_y = true},
};

static const char *const kinds[KINDS] = {"softmax", "favor", "rfa-gate"}; /* preset names */

/* ---- attention layers with their arrays -------------------------------------------------------------------------- */

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, ARRAYS };

/* Attention over one sequence. Arrays are ordered by head first. */
typedef struct crossover_case {
    bo_context *context; /* uses one thread */
    bo_attention *attention;
    bo_attention_call shape; /* without arrays */
    float *arrays[ARRAYS], *log_gate;
    char *tape;
    void *state, *kept; /* for decoding: the state in use, and a copy of the state after `tokens` tokens */
} crossover_case;

static bo_status make_arrays(crossover_case *c, bo_rng *rng, size_t heads, size_t tokens, bool backward)
{
    const size_t numbers = heads * tokens * DIM;
    for (size_t a = 0; a < (backward ? ARRAYS : DOUT); a++) {
        c->arrays[a] = bo_alloc_raw(c->context, numbers, sizeof(float), "an input of attention");
        if (!c->arrays[a]) return BO_MEMORY;
        for (size_t i = 0; i < numbers; i++) c->arrays[a][i] = a <= V || a == DOUT ? (float)bo_rng_normal(rng) : 0;
    }
    c->log_gate = bo_alloc_raw(c->context, heads * tokens, sizeof(float), "gates");
    if (!c->log_gate) return BO_MEMORY;
    for (size_t i = 0; i < heads * tokens; i++) c->log_gate[i] = -0.05f;
    return BO_OK;
}

/* state: updated in place; NULL: none. */
static bo_attention_call call_of(const crossover_case *c, size_t tokens, void *const *state)
{
    const bool gated = bo_attention_describe(c->attention)->gate == BO_GATE_CONVEX;
    return (bo_attention_call){.sequences = 1,
                               .tokens = tokens,
                               .q = {c->arrays[Q]},
                               .k = {c->arrays[K]},
                               .v = {c->arrays[V]},
                               .out = {c->arrays[OUT]},
                               .log_gate = {gated ? c->log_gate : NULL},
                               .initial = state,
                               .final = state};
}

static bo_status open_case(lab_run *run, bo_context *context, size_t kind, size_t heads, size_t tokens, bool backward,
                           crossover_case *out)
{
    bo_attention_desc desc = {.heads = heads, .dim = DIM, .causal = true, .capacity = kind == 0 ? tokens + STEPS : 0};
    bo_rng rng = lab_rng(run, "lab.crossover");
    size_t bytes;
    *out = (crossover_case){.context = context, .shape = {.sequences = 1, .tokens = tokens}};
    bo_attention_preset(kinds[kind], &desc);
    desc.features.features = FEATURES;
    desc.features.seed = lab_seed(run);
    BO_TRY(bo_attention_create(context, &desc, &out->attention));
    BO_TRY(make_arrays(out, &rng, heads, tokens, backward));
    BO_TRY(bo_attention_call_bytes(context, out->attention, &out->shape, false, &bytes, NULL));
    out->tape = bo_alloc_raw(context, bytes, 1, "the tape of attention");
    return out->tape ? BO_OK : BO_MEMORY;
}

static void close_case(crossover_case *c)
{
    for (size_t a = 0; a < ARRAYS; a++) bo_free(c->arrays[a]);
    bo_free(c->log_gate);
    bo_free(c->tape);
    bo_free(c->state);
    bo_free(c->kept);
    bo_attention_destroy(c->attention);
}

/* ---- timed functions --------------------------------------------------------------------------------------------- */

static bo_status train_once(crossover_case *c)
{
    bo_attention_call call = call_of(c, c->shape.tokens, NULL);
    call.tape = c->tape;
    call.dout.data = c->arrays[DOUT];
    call.dq.data = c->arrays[DQ];
    call.dk.data = c->arrays[DK];
    call.dv.data = c->arrays[DV];
    BO_TRY(bo_attention_forward(c->context, c->attention, &call));
    return bo_attention_backward(c->context, c->attention, &call);
}

/* Decodes some tokens from a copy of the saved state. The time of the copy is not counted, because `train_once` has no
 * such copy. */
static bo_status decode_some(crossover_case *c)
{
    const bo_attention_call call = call_of(c, 1, &c->state);
    for (size_t i = 0; i < STEPS; i++) BO_TRY(bo_attention_forward(c->context, c->attention, &call));
    return BO_OK;
}

/* Returns the median over samples of a few milliseconds each. */
static bo_status time_calls(crossover_case *c, bo_status (*call)(crossover_case *), size_t samples, double *seconds)
{
    const size_t bytes = c->state ? bo_attention_state_bytes(c->attention) : 0;
    double samples_seconds[SAMPLES + 1];
    size_t calls = 1;
    /* the first sample warms up and determines the number of calls per sample */
    for (size_t s = 0; s <= samples; s++) {
        double sum = 0;
        for (size_t i = 0; i < calls; i++) {
            if (bytes) memcpy(c->state, c->kept, bytes);
            const double start = lab_thread_seconds();
            BO_TRY(call(c));
            sum += lab_thread_seconds() - start;
        }
        samples_seconds[s] = sum / (double)calls;
        if (s == 0) calls = samples_seconds[0] > 3e-3 ? 1 : (size_t)(3e-3 / fmax(samples_seconds[0], 1e-6)) + 1;
    }
    *seconds = lab_median(samples_seconds + 1, samples);
    return BO_OK;
}

/* ---- lengths ----------------------------------------------------------------------------------------------------- */

typedef struct crossover_curves {
    size_t count;
    double tokens[MAX_LENGTHS], seconds[KINDS][MAX_LENGTHS], bytes[KINDS][MAX_LENGTHS], operations[KINDS][MAX_LENGTHS];
} crossover_curves;

/* Returns the length at which `first` becomes larger than `second`, by linear interpolation between logarithms. If one
 * is larger everywhere, returns the first or last length. */
static double crossing(const crossover_curves *c, const double *first, const double *second)
{
    for (size_t i = 0; i < c->count; i++) {
        if (first[i] < second[i]) continue;
        if (i == 0) return c->tokens[0];
        const double before = log(second[i - 1] / first[i - 1]), after = log(first[i] / second[i]);
        return c->tokens[i - 1] * pow(c->tokens[i] / c->tokens[i - 1], before / (before + after));
    }
    return c->tokens[c->count - 1];
}

static double growth(const crossover_curves *c, const double *values)
{
    const size_t from = c->count - 3;
    return lab_exponent(c->tokens + from, values + from, 3);
}

static bo_status train_length(lab_run *run, bo_context *context, size_t kind, crossover_curves *curves, size_t at)
{
    crossover_case c;
    bo_attention_cost plan;
    const double tokens = curves->tokens[at];
    bo_status status = open_case(run, context, kind, TRAIN_HEADS, (size_t)tokens, true, &c);
    if (status == BO_OK) status = time_calls(&c, train_once, lab_size(run, SAMPLES, 3), &curves->seconds[kind][at]);
    if (status == BO_OK) status = bo_attention_estimate(context, c.attention, &c.shape, &plan);
    close_case(&c);
    BO_TRY(status);
    curves->operations[kind][at] = plan.operations;
    curves->bytes[kind][at] = fmax((double)plan.forward_bytes, (double)plan.backward_bytes) + (double)plan.tape_bytes;
    lab_point(run, "training", kinds[kind], tokens, 1e6 * curves->seconds[kind][at] / tokens);
    lab_point(run, "memory", kinds[kind], tokens, curves->bytes[kind][at] / tokens / TRAIN_HEADS);
    return BO_OK;
}

static bo_status measure_training(lab_run *run, bo_context *context)
{
    crossover_curves c = {.count = lab_size(run, 8, 6)};
    for (size_t i = 0; i < c.count; i++) {
        c.tokens[i] = (double)((size_t)64 << i);
        for (size_t kind = 0; kind < KINDS; kind++) BO_TRY(train_length(run, context, kind, &c, i));
        lab_point(run, "memory", "all scores", c.tokens[i], sizeof(float) * c.tokens[i]);
        BO_TRY(lab_progress(run, 0.5 * (double)(i + 1) / (double)c.count));
    }
    lab_claim(run, "exact-growth", growth(&c, c.seconds[0]));
    lab_claim(run, "linear-growth", growth(&c, c.seconds[1]));
    lab_claim(run, "memory", growth(&c, c.bytes[0]));
    const double measured = crossing(&c, c.seconds[0], c.seconds[1]);
    const double counted = crossing(&c, c.operations[0], c.operations[1]);
    lab_claim(run, "training", measured / counted);
    lab_note(run,
             "In training, %s becomes faster than softmax attention at %.0f tokens and %s at %.0f. The operation "
             "counts are equal at %.0f tokens.",
             kinds[1], measured, kinds[2], crossing(&c, c.seconds[0], c.seconds[2]), counted);
    return BO_OK;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Reads `tokens` tokens minus half of those that are timed, so that `tokens` is the mean position of the timed ones. */
static bo_status read_text(crossover_case *c, size_t tokens)
{
    const size_t bytes = bo_attention_state_bytes(c->attention);
    const bo_attention_call call = call_of(c, tokens - STEPS / 2, &c->kept);
    c->state = bo_alloc(c->context, bytes, 1, "a state");
    c->kept = bo_alloc(c->context, bytes, 1, "a state");
    if (!c->state || !c->kept) return BO_MEMORY;
    BO_TRY(bo_attention_state_init(c->context, c->attention, c->kept));
    return bo_attention_forward(c->context, c->attention, &call);
}

static bo_status decode_length(lab_run *run, bo_context *context, size_t kind, crossover_curves *curves, size_t at)
{
    crossover_case c;
    const double tokens = curves->tokens[at];
    double seconds = NAN;
    bo_status status = open_case(run, context, kind, DECODE_HEADS, (size_t)tokens, false, &c);
    if (status == BO_OK) status = read_text(&c, (size_t)tokens);
    if (status == BO_OK) status = time_calls(&c, decode_some, lab_size(run, SAMPLES, 3), &seconds);
    if (status == BO_OK) curves->bytes[kind][at] = (double)bo_attention_state_bytes(c.attention);
    close_case(&c);
    BO_TRY(status);
    curves->seconds[kind][at] = seconds / STEPS;
    lab_point(run, "decoding", kinds[kind], tokens, 1e6 * curves->seconds[kind][at]);
    lab_point(run, "state", kinds[kind], tokens, 1e-3 * curves->bytes[kind][at]);
    return BO_OK;
}

static bo_status measure_decoding(lab_run *run, bo_context *context)
{
    crossover_curves c = {.count = lab_size(run, 9, 6)};
    for (size_t i = 0; i < c.count; i++) {
        c.tokens[i] = (double)((size_t)32 << i);
        for (size_t kind = 0; kind < KINDS; kind++) BO_TRY(decode_length(run, context, kind, &c, i));
        BO_TRY(lab_progress(run, 0.5 + 0.5 * (double)(i + 1) / (double)c.count));
    }
    /* A state of r (d_v + 1) numbers is read and written. A cache of d + d_v numbers per token is only read. */
    const double counted = 2.0 * FEATURES * (DIM + 1) / (2.0 * DIM),
                 measured = crossing(&c, c.seconds[0], c.seconds[1]);
    const size_t last = c.count - 1;
    lab_claim(run, "decoding", measured / counted);
    lab_claim(run, "decoding-flat", c.seconds[1][last] / c.seconds[1][0]);
    lab_claim(run, "state", c.bytes[1][last] / c.bytes[1][0] - 1);
    lab_note(
        run,
        "In decoding, the state of %s is faster from %.0f tokens and that of %s from %.0f. The amounts of data moved "
        "are equal at %.0f tokens.",
        kinds[1], measured, kinds[2], crossing(&c, c.seconds[0], c.seconds[2]), counted);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    bo_context *one; /* one thread, because all heads cost the same; CPU time excludes other programs */
    BO_TRY(bo_context_branch(lab_context(run), &one));
    bo_status status = measure_training(run, one);
    if (status == BO_OK) status = measure_decoding(run, one);
    if (status != BO_OK && status != BO_CANCELED && bo_context_error(one)[0])
        bo_fail(lab_context(run), status, "%s", bo_context_error(one));
    bo_context_destroy(one);
    return status;
}

const lab_experiment lab_crossover = {
    {.name = "crossover",
     .group = LAB_FEATURES,
     .title = "Sequence length at which linear attention becomes cheaper than "
              "softmax attention",
     .claim = "Attention with random features takes time that is linear in the sequence length and decodes from a "
              "state of fixed size. Softmax attention takes quadratic time and decodes from a cache that grows with "
              "every token. Softmax attention is cheaper at short lengths, and the crossover length can be predicted "
              "by counting operations.",
     .source = "Random Feature Attention (arXiv 2103.02143); FAVOR+ (arXiv 2009.14794)",
     .method = "One causal layer attends over Gaussian queries, keys and values of dimension 64, on one thread. "
               "Times are CPU times, medians of five samples. Compared are tiled softmax attention, positive "
               "features (favor) and gated sines and cosines (rfa-gate), both with 128 features. Training: a forward "
               "and backward pass at 64 to 8192 tokens. Decoding: one token after 32 to 8192 earlier tokens; softmax "
               "attention uses a KV cache. The predictions were made before measuring. For training they compare the "
               "operations of the forward pass; the backward pass doubles the count for both. For decoding, a state "
               "of r features moves 2 r (d + 1) numbers per head and a cache of n tokens moves 2 n d numbers. Memory "
               "is the amount that the execution plan requests in addition to inputs and outputs.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .timed = true},
    measure};
