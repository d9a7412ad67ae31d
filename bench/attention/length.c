/* Time as a function of length: the crossover length of linear and softmax attention, and time per token. */
#include "attention.h"
#include <math.h>

enum {
    SHORTEST = 64,         /* shortest length of the search for a crossover */
    MAX_CROSSOVER = 16384, /* longest length of that search */
    CROSSOVER_FEATURES = 128,
    CROSSOVER_GOAL = 1024,
    MIN_FLAT = 4096,
    FLAT_HEADS = 2, /* four arrays of a million rows of 64 floats: 1 GiB per head */
};

/* ---- crossover --------------------------------------------------------------------------------------------------- */

static const struct map {
    const char *name;
    bo_attention_kind kind;
    bo_kernel kernel;
    bo_function function;
    bo_gate gate;
    bool fixed; /* the map determines its number of features */
} maps[] = {
    {"favor, positive", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_GATE_NONE, false},
    {"favor, sincos", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_SINCOS, BO_GATE_NONE, false},
    {"favor, hyperbolic", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_HYPERBOLIC, BO_GATE_NONE, false},
    {"favor, oprf", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_OPRF, BO_GATE_NONE, false},
    {"dark", BO_ATTENTION_DARK, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_GATE_NONE, false},
    {"hybrid", BO_ATTENTION_HYBRID, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_GATE_NONE, false},
    {"rfa", BO_ATTENTION_RFA, BO_KERNEL_RBF, BO_FUNCTION_SINCOS, BO_GATE_NONE, false},
    {"rfa, arc-cosine", BO_ATTENTION_RFA, BO_KERNEL_ARCCOS, BO_FUNCTION_RELU, BO_GATE_NONE, false},
    {"rfa-gate", BO_ATTENTION_RFA, BO_KERNEL_RBF, BO_FUNCTION_SINCOS, BO_GATE_CONVEX, false},
    {"linear, rbf sincos", BO_ATTENTION_LINEAR, BO_KERNEL_RBF, BO_FUNCTION_SINCOS, BO_GATE_NONE, false},
    {"linear, rbf cosbias", BO_ATTENTION_LINEAR, BO_KERNEL_RBF, BO_FUNCTION_COSBIAS, BO_GATE_NONE, false},
    {"linear, relu", BO_ATTENTION_LINEAR, BO_KERNEL_ARCCOS, BO_FUNCTION_RELU, BO_GATE_NONE, false},
    {"linear, elu", BO_ATTENTION_LINEAR, BO_KERNEL_ELU, BO_FUNCTION_ELU, BO_GATE_NONE, true},
    {"linear, tensorsketch", BO_ATTENTION_LINEAR, BO_KERNEL_POLYNOMIAL, BO_FUNCTION_TENSORSKETCH, BO_GATE_NONE, false},
    {"linear, taylor", BO_ATTENTION_LINEAR, BO_KERNEL_TAYLOR, BO_FUNCTION_TAYLOR, BO_GATE_NONE, true},
};

static bo_attention_desc describe(const attention_bench *bench, const struct map *map)
{
    bo_attention_desc desc = attention_favor(bench, map->fixed ? 0 : CROSSOVER_FEATURES);
    desc.kind = map->kind;
    desc.features.kernel = map->kernel;
    desc.features.function = map->function;
    desc.gate = map->gate;
    /* For q and k of unit variance, |√s (q + k)|² is 2 d / √d on average. */
    if (map->function == BO_FUNCTION_OPRF) desc.features.pair_norm = 2 * sqrt(ATTENTION_DIM);
    return desc;
}

/* Seconds of a forward pass with a map and with softmax attention, in alternation. */
static bool time_beside_exact(attention_bench *bench, const bo_attention_desc *desc, size_t tokens, double seconds[2])
{
    attention_case linear, exact = {0};
    bo_attention_desc softmax = attention_exact();
    bool ok = attention_case_open(bench, bench->context, desc, tokens, false, &linear) &&
              attention_case_open(bench, bench->context, &softmax, tokens, false, &exact);
    attention_work works[] = {{bench->context, attention_case_forward, &linear, 0},
                              {bench->context, attention_case_forward, &exact, 0}};
    ok = ok && attention_time(bench, works, CLI_COUNT_OF(works), seconds, NULL);
    attention_case_close(&linear);
    attention_case_close(&exact);
    return ok;
}

/* The number of features of a map; 0 after a warning if this attention is not supported. */
static size_t count_features(attention_bench *bench, const char *name, const bo_attention_desc *desc)
{
    bo_attention *attention;
    if (bo_attention_create(bench->context, desc, &attention) != BO_OK) {
        cli_warn(bench->run->session, "no crossover of %s: %s", name, bo_context_error(bench->context));
        return 0;
    }
    size_t count = bo_features_describe(bo_attention_features(attention, 0))->features;
    bo_attention_destroy(attention);
    return count;
}

static bool find_crossover(attention_bench *bench, const struct map *map)
{
    const cli_counts *lengths = &bench->options->lengths;
    size_t longest = lengths->items[lengths->count - 1], max = longest < MAX_CROSSOVER ? longest : MAX_CROSSOVER;
    bo_attention_desc desc = describe(bench, map);
    size_t features = count_features(bench, map->name, &desc);
    attention_crossing crossing = {.at = INFINITY};
    double seconds[2] = {NAN, NAN};
    for (size_t tokens = SHORTEST; features && tokens <= max && isinf(crossing.at); tokens *= 2) {
        if (!time_beside_exact(bench, &desc, tokens, seconds)) return false;
        attention_crossing_add(&crossing, tokens, seconds[0] / seconds[1]);
    }
    if (crossing.last == 0) return true;
    char name[96], where[64];
    snprintf(name, sizeof name, "%s, %zu features, overtakes softmax at N", map->name, features);
    if (isinf(crossing.at))
        snprintf(where, sizeof where, "none up to %zu", crossing.last);
    else if (crossing.last == crossing.first)
        snprintf(where, sizeof where, "at the shortest length tried");
    else
        snprintf(where, sizeof where, "between %zu and %zu", crossing.last / 2, crossing.last);
    bench_add(bench->run, name, crossing.at, "tokens", features <= CROSSOVER_FEATURES ? CROSSOVER_GOAL : NAN, true,
              "%s; forward at %zu: %.4g ms, softmax %.4g ms", where, crossing.last, 1e3 * seconds[0], 1e3 * seconds[1]);
    return true;
}

bool attention_crossover_part(attention_bench *bench)
{
    for (size_t i = 0; i < CLI_COUNT_OF(maps); i++)
        if (!find_crossover(bench, &maps[i])) return false;
    return true;
}

/* ---- time per token ---------------------------------------------------------------------------------------------- */

/* Lengths from 4k by factors of four; the last one is the requested length. */
static size_t flat_lengths(size_t longest, size_t *lengths)
{
    size_t count = 0, tokens = longest < MIN_FLAT ? longest : MIN_FLAT;
    for (; count + 1 < CLI_COUNTS && tokens < longest; tokens *= 4) lengths[count++] = tokens;
    lengths[count++] = longest;
    return count;
}

/* Shorter sequences use the first rows of the arrays of the longest one. */
static bool measure_flat(attention_bench *bench, attention_case *longest, size_t features)
{
    size_t lengths[CLI_COUNTS], count = flat_lengths(longest->shape.tokens, lengths);
    attention_case cases[CLI_COUNTS];
    attention_work works[CLI_COUNTS];
    double seconds[CLI_COUNTS], min = INFINITY, max = 0;
    for (size_t i = 0; i < count; i++) {
        cases[i] = *longest;
        cases[i].shape.tokens = lengths[i];
        works[i] = (attention_work){bench->context, attention_case_forward, &cases[i], 0};
    }
    if (!attention_time(bench, works, count, seconds, NULL)) return false;
    char name[96], each[160];
    for (size_t i = 0, at = 0; i < count; i++) {
        double token = seconds[i] / (double)lengths[i];
        min = fmin(min, token);
        max = fmax(max, token);
        if (at < sizeof each)
            at +=
                (size_t)snprintf(each + at, sizeof each - at, "%s%.0f at %zu", i ? ", " : "", 1e9 * token, lengths[i]);
    }
    snprintf(name, sizeof name, "forward, %zu features, time per token, largest / smallest", features);
    bench_add(bench->run, name, max / min, "", 1.2, true, "%d heads; ns per token: %s", FLAT_HEADS, each);
    return true;
}

bool attention_flat_part(attention_bench *bench)
{
    size_t features = bench->options->features.items[0];
    bo_attention_desc desc = attention_favor(bench, features);
    desc.heads = FLAT_HEADS;
    attention_case longest;
    bool ok = attention_case_open(bench, bench->context, &desc, bench->options->tokens, false, &longest) &&
              measure_flat(bench, &longest, features);
    attention_case_close(&longest);
    return ok;
}
