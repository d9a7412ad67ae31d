/* crossover: from which length on attention with features is cheaper than exact attention, on this machine. */
#include "../tools/clock.h"
#include "../experiment.h"
#include "../statistics.h"
#include <bochner/attention.h>
#include <math.h>
#include <string.h>

enum {
    DIM = 64,
    FEATURES = 128,
    TRAIN_HEADS = 2,
    DECODE_HEADS = 8,
    KINDS = 3,
    MOST_LENGTHS = 10,
    SAMPLES = 5,
    STEPS = 16
};

static const bo_lab_claim claims[] = {
    {.name = "exact-growth",
     .statement = "Forward and backward of exact attention take time that grows with the square of the length.",
     .number = "exponent of seconds over the three longest lengths",
     .rule = BO_LAB_BETWEEN,
     .bound = 1.8,
     .upper = 2.2},
    {.name = "linear-growth",
     .statement = "Forward and backward of attention with features take time that grows with the length itself.",
     .number = "exponent of seconds over the three longest lengths",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1},
    {.name = "training",
     .statement = "The two cross in training where their operations do, within a factor of two.",
     .number = "length measured / length at which operations are equal",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.5,
     .upper = 2},
    {.name = "decoding",
     .statement =
         "A state is faster to decode from than a cache of keys and values from where it moves fewer numbers, within "
         "a factor of two.",
     .number = "length measured / length at which the numbers moved are equal",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.5,
     .upper = 2},
    {.name = "decoding-flat",
     .statement = "The time of a decoded token does not depend on how many came before.",
     .number = "seconds a token after the longest text / after the shortest",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.2},
    {.name = "state",
     .statement = "The state has the same size at every length.",
     .number = "bytes after the longest text / after the shortest, less 1",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "memory",
     .statement =
         "Exact attention in tiles never holds all scores: beside its inputs it takes memory that grows with the "
         "length, not with its square.",
     .number = "exponent of bytes over the three longest lengths",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.1,
     .source = "FlashAttention (2205.14135)"},
};

static const bo_lab_table tables[] = {
    {.name = "training",
     .title = "Forward and backward of one layer, 2 heads of 64",
     .rows = "tokens",
     .values = "microseconds a token",
     .log_x = true,
     .log_y = true},
    {.name = "memory",
     .title = "Memory of training beside the inputs",
     .rows = "tokens",
     .values = "bytes a token and head",
     .log_x = true,
     .log_y = true,
     .theory = "all scores"},
    {.name = "decoding",
     .title = "One token after so many, 8 heads of 64",
     .rows = "tokens before",
     .values = "microseconds",
     .log_x = true,
     .log_y = true},
    {.name = "state",
     .title = "What decoding carries along, 8 heads of 64",
     .rows = "tokens before",
     .values = "kB",
     .log_x = true,
     .log_y = true},
};

static const char *const kinds[KINDS] = {"softmax", "favor", "rfa-gate"}; /* names of presets */

/* ---- attention with its arrays ------------------------------------------------------------------------------------------------ */

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, ARRAYS };

/* One sequence, heads first. */
typedef struct crossover_case {
    bo_context *context; /* one thread */
    bo_attention *attention;
    bo_attention_shape shape;
    float *arrays[ARRAYS], *log_gate;
    char *tape;
    void *state, *kept; /* decoding: in use, and as it was after `tokens` */
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

static bo_attention_inputs inputs_of(const crossover_case *c)
{
    const bool gated = bo_attention_describe(c->attention)->gate == BO_GATE_CONVEX;
    return (bo_attention_inputs){
        .q = c->arrays[Q], .k = c->arrays[K], .v = c->arrays[V], .log_gate = gated ? c->log_gate : NULL};
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
    BO_TRY(bo_attention_tape_bytes(context, out->attention, &out->shape, &bytes));
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

/* ---- what is timed -------------------------------------------------------------------------------------------------------------- */

static bo_status train_once(crossover_case *c)
{
    const bo_attention_inputs in = inputs_of(c);
    const bo_attention_gradients gradients = {.q = c->arrays[DQ], .k = c->arrays[DK], .v = c->arrays[DV]};
    BO_TRY(bo_attention_forward(c->context, c->attention, &c->shape, &in, NULL, NULL, c->arrays[OUT], c->tape));
    return bo_attention_backward(c->context, c->attention, &c->shape, &in, NULL, c->arrays[OUT], c->tape,
                                 c->arrays[DOUT], NULL, &gradients);
}

/* So many tokens after the state as it was kept; the copy before them is not timed, which `train_once` has none of. */
static bo_status decode_some(crossover_case *c)
{
    const bo_attention_inputs in = inputs_of(c);
    for (size_t i = 0; i < STEPS; i++)
        BO_TRY(bo_attention_step(c->context, c->attention, 1, &in, (void *const[]){c->state}, c->arrays[OUT]));
    return BO_OK;
}

/* The median over samples of some milliseconds. */
static bo_status time_calls(crossover_case *c, bo_status (*call)(crossover_case *), size_t samples, double *seconds)
{
    const size_t bytes = c->state ? bo_attention_state_bytes(c->attention) : 0;
    double taken[SAMPLES + 1];
    size_t calls = 1;
    for (size_t s = 0; s <= samples; s++) { /* the first warms up, and says how many calls a sample has */
        double sum = 0;
        for (size_t i = 0; i < calls; i++) {
            if (bytes) memcpy(c->state, c->kept, bytes);
            const double start = lab_thread_seconds();
            BO_TRY(call(c));
            sum += lab_thread_seconds() - start;
        }
        taken[s] = sum / (double)calls;
        if (s == 0) calls = taken[0] > 3e-3 ? 1 : (size_t)(3e-3 / fmax(taken[0], 1e-6)) + 1;
    }
    *seconds = lab_median(taken + 1, samples);
    return BO_OK;
}

/* ---- lengths --------------------------------------------------------------------------------------------------------------------- */

typedef struct crossover_curves {
    size_t count;
    double tokens[MOST_LENGTHS], seconds[KINDS][MOST_LENGTHS], bytes[KINDS][MOST_LENGTHS],
        operations[KINDS][MOST_LENGTHS];
} crossover_curves;

/* Where the first becomes larger than the second: by a straight line between logarithms; at an end where it is all on one
 * side. */
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
    lab_note(run, "Training: %s overtakes exact attention at %.0f tokens, %s at %.0f; operations are equal at %.0f.",
             kinds[1], measured, kinds[2], crossing(&c, c.seconds[0], c.seconds[2]), counted);
    return BO_OK;
}

/* ---- decoding -------------------------------------------------------------------------------------------------------------------- */

/* The state after `tokens` less half of what is timed, so that these are the mean. */
static bo_status read_text(crossover_case *c, size_t tokens)
{
    const size_t bytes = bo_attention_state_bytes(c->attention);
    const bo_attention_inputs in = inputs_of(c);
    bo_attention_shape shape = c->shape;
    shape.tokens = tokens - STEPS / 2;
    c->state = bo_alloc(c->context, bytes, 1, "a state");
    c->kept = bo_alloc(c->context, bytes, 1, "a state");
    if (!c->state || !c->kept) return BO_MEMORY;
    BO_TRY(bo_attention_state_init(c->context, c->attention, c->kept));
    return bo_attention_extend(c->context, c->attention, &shape, &in, (void *const[]){c->kept}, c->arrays[OUT]);
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
    /* A state is read and written, r (d_v + 1) numbers; a cache is read, d + d_v numbers per token. */
    const double counted = 2.0 * FEATURES * (DIM + 1) / (2.0 * DIM),
                 measured = crossing(&c, c.seconds[0], c.seconds[1]);
    const size_t last = c.count - 1;
    lab_claim(run, "decoding", measured / counted);
    lab_claim(run, "decoding-flat", c.seconds[1][last] / c.seconds[1][0]);
    lab_claim(run, "state", c.bytes[1][last] / c.bytes[1][0] - 1);
    lab_note(
        run,
        "Decoding: a state of %s is faster from %.0f tokens on, of %s from %.0f; the numbers moved are equal at %.0f.",
        kinds[1], measured, kinds[2], crossing(&c, c.seconds[0], c.seconds[2]), counted);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    bo_context *one; /* thread: heads are alike, and other programs do not count */
    BO_TRY(bo_context_branch(lab_context(run), &one));
    bo_status status = measure_training(run, one);
    if (status == BO_OK) status = measure_decoding(run, one);
    if (status != BO_OK && status != BO_CANCELED && bo_context_error(one)[0])
        bo_fail(lab_context(run), status, "%s", bo_context_error(one));
    bo_context_destroy(one);
    return status;
}

const lab_experiment lab_crossover = {{.name = "crossover",
                                       .group = LAB_FEATURES,
                                       .title = "From which length on linear attention is cheaper",
                                       .claim = "Attention with features takes time that is linear in the length and "
                                                "decodes from a state of fixed size, where exact attention is "
                                                "quadratic and carries a cache that grows. At short lengths exact "
                                                "attention is the cheaper; where they cross follows from counting.",
                                       .source = "Random Feature Attention (2103.02143); FAVOR+ (2009.14794)",
                                       .method = "One causal layer on Gaussian queries, keys and values of dimension "
                                                 "64, one thread, the time that the thread was given, medians of five "
                                                 "samples: exact attention in tiles, positive features (favor) and "
                                                 "gated sines and cosines (rfa-gate), 128 features. Forward and "
                                                 "backward at 64 to 8192 tokens; one decoded token after 32 to 8192, "
                                                 "exact attention from a cache. Counts made beforehand: operations of "
                                                 "the forward pass, which backward doubles for both; when decoding, a "
                                                 "state of r features moves 2 r (d + 1) numbers a head and a cache of "
                                                 "n tokens 2 n d. Memory is what the plan asks for beside inputs and "
                                                 "outputs.",
                                       LAB_CLAIMS(claims),
                                       LAB_TABLES(tables),
                                       .timed = true},
                                      measure};
