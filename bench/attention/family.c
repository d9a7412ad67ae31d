/* All attention kinds: rates relative to small-GEMM, decoding steps, and the cost of gates. */
#include "attention.h"
#include <math.h>

enum {
    TOKENS = 4096,  /* length of a sequence, or the longest of --lengths */
    PROMPT = 64,    /* tokens that a state has absorbed before steps are timed */
    STEPS = 4,      /* steps per sample for kinds whose state grows */
    SEQUENCES = 16, /* batch size of decoding, or --sequences */
};

static size_t family_tokens(const attention_bench *bench)
{
    const cli_counts *lengths = &bench->options->lengths;
    const size_t longest = lengths->items[lengths->count - 1];
    return longest < TOKENS ? longest : TOKENS;
}

/* ---- kinds of attention ------------------------------------------------------------------------------------------ */

typedef struct member {
    const char *name, *preset;
    double goal; /* goal for the forward pass; NAN: none */
    bo_gate gate;
    bool drawn; /* an option sets the number of features */
    size_t dim; /* dimension of queries, keys and values; 0: ATTENTION_DIM */
    bool all;   /* not causal: every query sees all keys */
} member;

static const member family[] = {
    {"linear (elu)", "linear", NAN, BO_GATE_NONE, false, 0, false},
    {"retention", "retention", NAN, BO_GATE_FIXED, false, 0, false},
    {"favor", "favor", NAN, BO_GATE_NONE, true, 0, false},
    {"favor, decay gate", "favor", NAN, BO_GATE_DECAY, true, 0, false},
    {"poly, degree 2", "poly", 0.5, BO_GATE_NONE, false, 0, false},
    {"poly, degree 2, width 32", "poly", 0.5, BO_GATE_NONE, false, 32, false},
    {"poly, degree 2, width 16", "poly", 0.5, BO_GATE_NONE, false, 16, false},
    {"taylor", "taylor", 0.5, BO_GATE_NONE, false, 0, false},
    {"hedgehog", "hedgehog", NAN, BO_GATE_NONE, false, 0, false},
    {"t2r", "t2r", NAN, BO_GATE_NONE, false, 0, false},
    {"power, degree 2", "power", NAN, BO_GATE_NONE, false, 0, false},
    {"gla", "gla", 0.5, BO_GATE_NONE, false, 0, false},
    {"delta", "delta", 0.5, BO_GATE_NONE, false, 0, false},
    {"gated-delta", "gated-delta", 0.5, BO_GATE_DECAY, false, 0, false},
    {"ridge", "ridge", NAN, BO_GATE_NONE, false, 0, false},
    {"ridge, not causal", "ridge", NAN, BO_GATE_NONE, false, 0, true},
    {"gated-ridge", "gated-ridge", NAN, BO_GATE_DECAY, false, 0, false},
};

static bo_attention_desc describe(const attention_bench *bench, const member *of)
{
    bo_attention_desc desc = attention_favor(bench, of->drawn ? bench->options->features.items[0] : 0);
    bo_attention_preset(of->preset, &desc);
    desc.gate = of->gate;
    desc.causal = !of->all;
    if (of->dim) desc.dim = desc.value_dim = of->dim;
    return desc;
}

/* ---- one kind ---------------------------------------------------------------------------------------------------- */

/* Measures the forward pass, or forward and backward together. The backward pass counts twice the operations of the
 * forward pass. */
static bool measure_pass(attention_bench *bench, const member *of, bool gradients)
{
    const bo_attention_desc desc = describe(bench, of);
    const size_t tokens = family_tokens(bench);
    attention_case what;
    attention_rate rate;
    bo_attention_cost plan;
    bool ok = attention_case_open(bench, bench->context, &desc, tokens, gradients, &what);
    if (ok && bo_attention_estimate(what.context, what.attention, &what.shape, &plan) != BO_OK)
        ok = cli_fail(bench->run->session, "%s", bo_context_error(what.context)) == CLI_DONE;
    attention_work work = {bench->context, gradients ? attention_case_both : attention_case_forward, &what, 0};
    ok = ok && attention_against_small_gemm(bench, &work, (gradients ? 3 : 1) * plan.operations, &rate);
    attention_case_close(&what);
    if (!ok) return false;
    char name[96];
    snprintf(name, sizeof name, "%s, forward%s / small-GEMM", of->name, gradients ? " + backward" : "");
    bench_add(bench->run, name, rate.ratio, "", gradients ? NAN : of->goal, false,
              "N = %zu: %.4g ms, %.4g of %.4g GFLOP/s, %.4g Mflop per token", tokens, 1e3 * rate.seconds, rate.gflops,
              rate.reference, 1e-6 * plan.operations / (double)tokens);
    return true;
}

static bool measure_step(attention_bench *bench, const member *of)
{
    bo_attention_desc desc = describe(bench, of);
    const bool grows = bo_attention_has(&desc, BO_TRAIT_CAPACITY);
    const size_t sequences = bench->options->sequences < SEQUENCES ? bench->options->sequences : SEQUENCES;
    if (grows) desc.capacity = PROMPT + 1 + STEPS * bench->options->repeats;
    attention_decoder decoder;
    double seconds;
    bool ok = attention_decoder_open(bench, &desc, PROMPT, &decoder);
    if (ok) attention_decoder_fork(bench, &decoder, sequences);
    attention_work work = {bench->context, attention_decoder_step, &decoder, grows ? STEPS : 0};
    ok = ok && attention_time(bench, &work, 1, &seconds, NULL);
    if (ok) {
        char name[96];
        snprintf(name, sizeof name, "%s, decoding step", of->name);
        bench_add(bench->run, name, 1e6 * seconds / (double)sequences, "us", NAN, true,
                  "one token of %d heads, %zu sequences together; the state has %s%s", ATTENTION_HEADS, sequences,
                  cli_bytes((double)decoder.bytes).s, grows ? " with 64 keys and grows" : "");
    }
    attention_decoder_close(&decoder);
    return ok;
}

/* ---- ridge attention of one pool --------------------------------------------------------------------------------- */

enum { POOLS = 3 };

/* Times noncausal ridge attention, causal ridge attention, and softmax attention over all keys, in alternation. */
static bool measure_pool(attention_bench *bench, bool gradients)
{
    static const char *const names[POOLS] = {"ridge, not causal", "ridge, causal", "softmax, not causal"};
    const size_t tokens = family_tokens(bench);
    attention_case cases[POOLS] = {0};
    attention_work works[POOLS];
    double seconds[POOLS], ratios[POOLS];
    bool ok = true;
    for (size_t i = 0; i < POOLS; i++) {
        bo_attention_desc desc = attention_favor(bench, 0);
        bo_attention_preset(i < 2 ? "ridge" : "softmax", &desc);
        desc.causal = i == 1;
        ok = ok && attention_case_open(bench, bench->context, &desc, tokens, gradients, &cases[i]);
        works[i] =
            (attention_work){bench->context, gradients ? attention_case_both : attention_case_forward, &cases[i], 0};
    }
    ok = ok && attention_time(bench, works, POOLS, seconds, ratios);
    for (size_t i = 0; i < POOLS; i++) attention_case_close(&cases[i]);
    for (size_t i = 1; ok && i < POOLS; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s / %s, forward%s", names[i], names[0], gradients ? " + backward" : "");
        bench_add(bench->run, name, ratios[i], "", NAN, false, "N = %zu: %.4g us and %.4g us per token", tokens,
                  1e6 * seconds[i] / (double)tokens, 1e6 * seconds[0] / (double)tokens);
    }
    return ok;
}

bool attention_family_part(attention_bench *bench)
{
    for (size_t i = 0; i < CLI_COUNT_OF(family); i++)
        if (!measure_pass(bench, &family[i], false) || !measure_pass(bench, &family[i], true) ||
            (!family[i].all && !measure_step(bench, &family[i])))
            return false;
    return measure_pool(bench, false) && measure_pool(bench, true);
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

enum { GATES = 3 };
static const struct {
    const char *name;
    bo_gate gate;
} gates[GATES] = {{"plain", BO_GATE_NONE}, {"retention", BO_GATE_FIXED}, {"one gate per token", BO_GATE_DECAY}};

static const struct map {
    const char *name;
    bo_attention_kind kind;
    bo_kernel kernel;
    bo_normalizer normalizer;
} maps[] = {
    {"identity, not normalized", BO_ATTENTION_LINEAR, BO_KERNEL_LINEAR, BO_NORMALIZER_NONE},
    {"elu", BO_ATTENTION_LINEAR, BO_KERNEL_ELU, BO_NORMALIZER_SUM},
    {"favor", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_NORMALIZER_SUM},
};

/* Times the same map without a gate, with one gate per head and with one gate per token, in alternation. */
static bool measure_gates(attention_bench *bench, const struct map *map, bool gradients)
{
    const size_t tokens = family_tokens(bench);
    attention_case cases[GATES] = {0};
    attention_work works[GATES];
    double seconds[GATES], ratios[GATES];
    bool ok = true;
    for (size_t i = 0; i < GATES; i++) {
        bo_attention_desc desc =
            attention_favor(bench, map->kind == BO_ATTENTION_FAVOR ? bench->options->features.items[0] : 0);
        desc.kind = map->kind;
        desc.features.kernel = map->kernel;
        desc.normalizer = map->normalizer;
        desc.gate = gates[i].gate;
        ok = ok && attention_case_open(bench, bench->context, &desc, tokens, gradients, &cases[i]);
        works[i] =
            (attention_work){bench->context, gradients ? attention_case_both : attention_case_forward, &cases[i], 0};
    }
    ok = ok && attention_time(bench, works, GATES, seconds, ratios);
    for (size_t i = 0; i < GATES; i++) attention_case_close(&cases[i]);
    for (size_t i = 1; ok && i < GATES; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s, forward%s: %s / plain", map->name, gradients ? " + backward" : "",
                 gates[i].name);
        bench_add(bench->run, name, ratios[i], "", 1.1, true, "N = %zu: %.4g ms, plain %.4g ms", tokens,
                  1e3 * seconds[i], 1e3 * seconds[0]);
    }
    return ok;
}

bool attention_gates_part(attention_bench *bench)
{
    for (size_t i = 0; i < CLI_COUNT_OF(maps); i++)
        if (!measure_gates(bench, &maps[i], false) || !measure_gates(bench, &maps[i], true)) return false;
    return true;
}
