/* Which options of attention belong to which kind, and which contradict each other. */
#include "attention.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WRONG(...) return cli_wrong_use(o->command, __VA_ARGS__)

enum {
    EXACT = 1 << BO_ATTENTION_EXACT,
    LINEAR = 1 << BO_ATTENTION_LINEAR,
    RFA = 1 << BO_ATTENTION_RFA,
    FAVOR = 1 << BO_ATTENTION_FAVOR,
    DARK = 1 << BO_ATTENTION_DARK,
    HYBRID = 1 << BO_ATTENTION_HYBRID,
    LEARNED = 1 << BO_ATTENTION_LEARNED,
    POWER = 1 << BO_ATTENTION_POWER,
    GLA = 1 << BO_ATTENTION_GLA,
    DELTA = 1 << BO_ATTENTION_DELTA,
    RIDGE = 1 << BO_ATTENTION_RIDGE,
    ADVISE = 1 << BO_ATTENTION_COUNT,
    ANY = ADVISE - 1,
    SUMS = LINEAR | RFA | FAVOR | DARK | LEARNED,
    FEATURES = SUMS | HYBRID,
    DRAWN = FEATURES & ~LEARNED,
    MEMORIES = GLA | DELTA | RIDGE
};

/* ---- options of other kinds ----------------------------------------------------------------------------- */

/* The kinds of a mask by the names that --kind takes. */
static const char *kind_words(unsigned mask, char *out, size_t room)
{
    size_t used = 0;
    const char *name;
    out[0] = 0;
    for (int i = 0; (name = cli_attention_kind_choice(i)) && used < room; i++) {
        const bo_attention_desc d = cli_attention_chosen(&(cli_attention_options){
            .kind = i, .gate_input = -1, .map = -1, .sampling = -1, .proposal = -1, .normalizer = -1});
        if (mask & 1u << d.kind) used += (size_t)snprintf(out + used, room - used, "%s%s", used ? ", " : "", name);
    }
    return out;
}

static int misplaced(const cli_attention_options *o, const char *option, unsigned belongs)
{
    char words[256];
    if (o->advise) WRONG("--%s has no meaning with --advise, which tries kinds and maps itself", option);
    if (belongs == ADVISE) WRONG("--%s is for --advise", option);
    WRONG("--%s is for kind %s; found kind %s", option, kind_words(belongs, words, sizeof words),
          cli_attention_kind_choice(o->kind));
}

static int check_sources(const cli_attention_options *o, unsigned found)
{
    static const unsigned belongs[CLI_SOURCES] = {[CLI_Q] = ANY | ADVISE,
                                                  [CLI_K] = ANY | ADVISE,
                                                  [CLI_V] = ANY | ADVISE,
                                                  [CLI_GATE] = SUMS | MEMORIES,
                                                  [CLI_LOG_GATE] = SUMS | MEMORIES,
                                                  [CLI_DECAY] = SUMS,
                                                  [CLI_BETA] = DELTA | RIDGE,
                                                  [CLI_SIGMA] = RFA,
                                                  [CLI_M] = DARK,
                                                  [CLI_W] = LEARNED | HYBRID,
                                                  [CLI_W_K] = LEARNED | HYBRID,
                                                  [CLI_BIAS] = LEARNED | HYBRID,
                                                  [CLI_BIAS_K] = LEARNED | HYBRID,
                                                  [CLI_LAMBDA] = RIDGE,
                                                  [CLI_MIX] = HYBRID,
                                                  [CLI_CALIBRATE_Q] = DRAWN,
                                                  [CLI_CALIBRATE_K] = DRAWN};
    for (int i = 0; i < CLI_SOURCES; i++)
        if (o->given[i] && !(belongs[i] & found))
            return misplaced(o, cli_attention_option((cli_attention_source)i), belongs[i]);
    return CLI_DONE;
}

static int check_belonging(const cli_attention_options *o)
{
    const struct {
        const char *name;
        bool given;
        unsigned belongs;
    } table[] = {
        {"map", o->map >= 0, FEATURES},
        {"features", o->features != CLI_NOT_GIVEN, DRAWN},
        {"draw", o->draw > 0, DRAWN},
        {"one-draw", o->one_draw, DRAWN},
        {"sampling", o->sampling >= 0, DRAWN},
        {"proposal", o->proposal >= 0, FAVOR | DARK | HYBRID},
        {"degree", !isnan(o->degree), LINEAR | HYBRID | POWER},
        {"alpha", o->alpha > 0, LINEAR | HYBRID},
        {"scale", o->scale > 0, ADVISE | (ANY & ~(RFA | LEARNED | RIDGE))},
        {"gamma", o->gamma > 0, HYBRID},
        {"window", o->window != CLI_NOT_GIVEN, EXACT | HYBRID | POWER},
        {"temperature", o->temperature > 0, RFA},
        {"rank", o->rank != CLI_NOT_GIVEN, DARK | LEARNED | HYBRID},
        {"whiten", o->whiten, DARK},
        {"propose", o->propose, FAVOR | DARK},
        {"gate-input", o->gate_input >= 0, SUMS},
        {"normalizer none", o->normalizer == BO_NORMALIZER_NONE, LINEAR | RFA | LEARNED},
        {"normalizer", o->normalizer >= 0, SUMS},
        {"clamp", o->clamp > 0, FEATURES},
        {"chunk", o->chunk != CLI_NOT_GIVEN, FEATURES | MEMORIES},
        {"unit", o->unit, MEMORIES},
        {"no-unit", o->no_unit, MEMORIES},
        {"iterations", o->iterations != CLI_NOT_GIVEN, RIDGE},
        {"tolerance", o->tolerance > 0, RIDGE},
        {"compare", o->compare, ANY},
        {"out", o->out != NULL, ANY},
        {"plan", o->plan, ANY},
        {"kind", o->kind >= 0, ANY},
        {"target", o->target > 0, ADVISE},
        {"most", o->most != CLI_NOT_GIVEN, ADVISE},
    };
    const unsigned found = o->advise ? (unsigned)ADVISE : 1u << cli_attention_chosen(o).kind;
    for (size_t i = 0; i < CLI_COUNT_OF(table); i++)
        if (table[i].given && !(table[i].belongs & found)) return misplaced(o, table[i].name, table[i].belongs);
    return check_sources(o, found);
}

/* ---- maps ----------------------------------------------------------------------------------------------- */

static bool is_learned(bo_kernel kernel)
{
    return kernel == BO_KERNEL_COSH || kernel == BO_KERNEL_HEDGEHOG || kernel == BO_KERNEL_RECTIFIER;
}

/* The kernels that kinds other than linear take. */
static int check_map(const cli_attention_options *o, const bo_attention_desc *d)
{
    if (o->map < 0) return CLI_DONE;
    const bo_kernel kernel = d->features.kernel;
    const char *name = cli_attention_map_choice(o->map), *kind = cli_attention_kind_choice(o->kind);
    switch (d->kind) {
    case BO_ATTENTION_RFA:
        if (kernel == BO_KERNEL_RBF || kernel == BO_KERNEL_ARCCOS) return CLI_DONE;
        WRONG("--map: kind %s takes trig or relu; found %s", kind, name);
    case BO_ATTENTION_FAVOR:
    case BO_ATTENTION_DARK:
        if (kernel == BO_KERNEL_SOFTMAX) return CLI_DONE;
        WRONG("--map: kind %s estimates softmax: positive, trig, hyperbolic or oprf; found %s (kind linear takes any "
              "map)",
              kind, name);
    case BO_ATTENTION_LEARNED:
        if (is_learned(kernel)) return CLI_DONE;
        WRONG("--map: kind %s takes exponential, hedgehog or rectifier; found %s", kind, name);
    case BO_ATTENTION_HYBRID: /* to the library, a hybrid's rbf is a map that was not given */
        if (kernel != BO_KERNEL_RBF) return CLI_DONE;
        WRONG("--map: kind hybrid does not take %s", name);
    default:
        return CLI_DONE;
    }
}

/* The degree p of (1 + s q·k)^p, or of |s q·k|^p. */
static int check_degree(const cli_attention_options *o, const bo_attention_desc *d)
{
    const double p = o->degree;
    if (isnan(p)) return CLI_DONE;
    if (d->kind == BO_ATTENTION_POWER) {
        if (p > 0) return CLI_DONE;
        WRONG("--degree: expected a number p above 0, of |s q.k|^p; found %g", p);
    }
    if (d->features.kernel != BO_KERNEL_POLYNOMIAL)
        WRONG("--degree is for kinds poly and power and for polynomial maps; found kind %s",
              cli_attention_kind_choice(o->kind));
    if (p >= 1 && p <= 64 && p == floor(p)) return CLI_DONE;
    WRONG("--degree: expected a whole number p from 1 to 64, of (1 + s q.k)^p; found %g%s", p,
          p > 0 ? " (kind power takes any number)" : "");
}

/* ---- gates and numbers ---------------------------------------------------------------------------------- */

static int check_gate(const cli_attention_options *o, const bo_attention_desc *d)
{
    const bool given = o->given[CLI_GATE] || o->given[CLI_LOG_GATE], channels = d->kind == BO_ATTENTION_GLA;
    if (o->given[CLI_GATE] && o->given[CLI_LOG_GATE]) WRONG("give --gate or --log-gate, not both");
    if (given && o->given[CLI_DECAY]) WRONG("give --decay, one number for all tokens, or --gate, not both");
    if (given && cli_attention_named(o).gate == BO_GATE_FIXED)
        WRONG("--kind %s has fixed decays (--decay); for gates of the data: --kind linear --map identity --normalizer "
              "none --causal --%s FILE",
              cli_attention_kind_choice(o->kind), o->given[CLI_GATE] ? "gate" : "log-gate");
    if (o->gate_input >= 0 && !given) WRONG("--gate-input needs --gate or --log-gate");
    if (!given && (channels || d->gate == BO_GATE_CONVEX || d->gate == BO_GATE_DECAY))
        WRONG("--kind %s needs --gate or --log-gate: an array of gates in (0, 1], or of their logarithms, in the shape "
              "of the keys%s",
              cli_attention_kind_choice(o->kind), channels ? "" : " without their width");
    if (d->gate != BO_GATE_NONE && !d->causal) WRONG("a gate needs --causal");
    return CLI_DONE;
}

/* A list of numbers but for a comma too many; anything else that is no list is the name of a file. */
static bool lacks_element(const char *text)
{
    const size_t length = strlen(text);
    if (length == 0 || strspn(text, "0123456789.eE+-,") != length) return false;
    return text[0] == ',' || text[length - 1] == ',' || strstr(text, ",,");
}

/* Numbers in place of a file. */
static int check_number(const cli_attention_options *o, cli_attention_source source, double most, const char *range)
{
    double numbers[64] = {0};
    const char *option = cli_attention_option(source), *text = o->given[source];
    if (!text) return CLI_DONE;
    if (lacks_element(text)) WRONG("--%s: expected %s, found a list with an empty element, '%s'", option, range, text);
    const size_t count = cli_attention_list(text, numbers, CLI_COUNT_OF(numbers));
    for (size_t i = 0; i < count && i < CLI_COUNT_OF(numbers); i++) {
        if (!(numbers[i] > 0 && numbers[i] <= most)) WRONG("--%s: expected %s, found %g", option, range, numbers[i]);
        if (!(numbers[i] >= FLT_TRUE_MIN && numbers[i] <= FLT_MAX))
            WRONG("--%s: expected %s that float32 can hold (1.4e-45 to 3.4e38), found %g", option, range, numbers[i]);
    }
    return CLI_DONE;
}

static int check_numbers(const cli_attention_options *o, const bo_attention_desc *d)
{
    int status = check_number(o, CLI_DECAY, 1, "numbers above 0 and at most 1");
    if (status == CLI_DONE) status = check_number(o, CLI_LAMBDA, HUGE_VAL, "a number above 0");
    if (status != CLI_DONE) return status;
    if ((o->iterations != CLI_NOT_GIVEN || o->tolerance > 0) && d->gate == BO_GATE_NONE)
        WRONG("--%s is for ridge with a gate (gated-ridge); without one its systems are solved exactly",
              o->tolerance > 0 ? "tolerance" : "iterations");
    if (o->unit && o->no_unit) WRONG("give --unit or --no-unit, not both");
    return CLI_DONE;
}

/* ---- options that would do nothing beside others -------------------------------------------------------------- */

static int check_calibration(const cli_attention_options *o, const bo_attention_desc *d)
{
    const bo_proposal named = cli_attention_named(o).proposal;
    if (named != BO_PROPOSAL_NONE && d->proposal != BO_PROPOSAL_NONE && named != d->proposal)
        WRONG("--kind %s is --proposal %s; found --proposal %s (--kind favor takes any)",
              cli_attention_kind_choice(o->kind), bo_proposal_name(named), bo_proposal_name(d->proposal));
    const bool data = o->given[CLI_CALIBRATE_Q] || o->given[CLI_CALIBRATE_K];
    if (data && !(o->given[CLI_CALIBRATE_Q] && o->given[CLI_CALIBRATE_K]))
        WRONG("--calibrate-q and --calibrate-k go together; found no --calibrate-%s",
              o->given[CLI_CALIBRATE_Q] ? "k" : "q");
    if (data && !cli_attention_calibrates(d))
        WRONG("--calibrate-q has no meaning: these frequencies are not drawn for data, as those of favor++, favor#, "
              "--proposal and --sampling optimal are");
    if (o->propose && cli_attention_calibrates(d))
        WRONG("give --propose, or a kind, --proposal or --sampling that draws for the data; not both");
    if (!!o->given[CLI_M] + o->whiten + o->propose > 1)
        WRONG("give one of --m, --whiten and --propose: each says where frequencies or M come from");
    return CLI_DONE;
}

/* What the map has no use for. */
static int check_idle_map(const cli_attention_options *o, const bo_attention_desc *d)
{
    const bo_features_desc *f = &d->features;
    const char *map = o->map >= 0 ? cli_attention_map_choice(o->map) : bo_kernel_name(f->kernel);
    const char *idle = o->draw > 0                          ? "draw"
                       : o->one_draw                        ? "one-draw"
                       : f->sampling == BO_SAMPLING_OPTIMAL ? "sampling optimal"
                                                            : NULL;
    const bool scaled = f->kernel == BO_KERNEL_SOFTMAX || f->kernel == BO_KERNEL_COSH;
    if (d->normalizer == BO_NORMALIZER_NONE && scaled)
        WRONG("--normalizer none: features of the %s kernel need a normalizer", bo_kernel_name(f->kernel));
    if (d->normalizer == BO_NORMALIZER_NONE && o->clamp > 0)
        WRONG("--clamp has no meaning without a normalizer: there is no denominator");
    if (idle && !cli_attention_draws(f))
        WRONG("--%s has no meaning for the %s map, which draws no frequencies", idle, map);
    if (o->gamma > 0 && (f->kernel == BO_KERNEL_SOFTMAX || is_learned(f->kernel)))
        WRONG("--gamma has no meaning for the %s map, which has %s", map, is_learned(f->kernel) ? "W" : "the scale");
    if (d->kind != BO_ATTENTION_HYBRID || is_learned(f->kernel)) return CLI_DONE;
    const cli_attention_source learned[] = {CLI_W, CLI_W_K, CLI_BIAS, CLI_BIAS_K};
    for (size_t i = 0; i < CLI_COUNT_OF(learned); i++)
        if (o->given[learned[i]])
            WRONG("--%s is for a hybrid with a learned map: --map exponential, hedgehog or rectifier",
                  cli_attention_option(learned[i]));
    if (o->rank != CLI_NOT_GIVEN) WRONG("--rank is for a hybrid with a learned map");
    return CLI_DONE;
}

/* What a map may be asked for. */
static int check_maps(const cli_attention_options *o, const bo_attention_desc *d)
{
    if (!((1u << d->kind) & FEATURES)) return CLI_DONE;
    const int status = check_map(o, d);
    return status == CLI_DONE ? check_idle_map(o, d) : status;
}

int cli_attention_check_layer(const cli_attention_options *o)
{
    const bo_attention_desc d = cli_attention_chosen(o);
    int status = check_belonging(o);
    if (status == CLI_DONE) status = check_numbers(o, &d);
    if (status == CLI_DONE) status = check_degree(o, &d);
    if (status == CLI_DONE) status = check_calibration(o, &d);
    return status == CLI_DONE ? check_maps(o, &d) : status;
}

int cli_attention_check(const cli_attention_options *o)
{
    typedef int (*check)(const cli_attention_options *o, const bo_attention_desc *d);
    static const check checks[] = {check_gate, check_numbers, check_degree, check_calibration};
    if (o->kind < 0 && !o->advise) {
        char words[256];
        WRONG("give --kind, one of %s (or --advise)", kind_words(ANY, words, sizeof words));
    }
    int status = check_belonging(o);
    if (status != CLI_DONE || o->advise) return status;
    const bo_attention_desc d = cli_attention_chosen(o);
    for (size_t i = 0; status == CLI_DONE && i < CLI_COUNT_OF(checks); i++) status = checks[i](o, &d);
    if (status != CLI_DONE) return status;
    if (o->window != CLI_NOT_GIVEN && !d.causal) WRONG("--window needs --causal");
    if (o->plan && (o->out || o->compare))
        WRONG("--plan computes nothing: there is nothing to %s", o->out ? "write for --out" : "--compare");
    return check_maps(o, &d);
}
