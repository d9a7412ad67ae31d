/* Checks that the options apply to the kind of attention and do not exclude each other. */
#include "attention.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define USAGE_ERROR(...) return cli_usage_error(o->command, __VA_ARGS__)

/* ---- options of other kinds -------------------------------------------------------------------------------------- */

static int misplaced(const cli_attention_options *o, const char *option, unsigned traits)
{
    char text[256];
    if (o->advise) USAGE_ERROR("--%s cannot be used with --advise, which chooses kinds and maps", option);
    if (traits == CLI_ADVISE) USAGE_ERROR("--%s is an option of --advise", option);
    USAGE_ERROR("--%s applies to the kinds %s, found kind %s", option, cli_kinds_with(traits, text, sizeof text),
                cli_attention_kind_choice(o->kind));
}

/* True if an option with these traits applies to the chosen kind. */
static bool is_placed(const cli_attention_options *o, unsigned traits)
{
    if (o->advise) return !traits || traits & CLI_ADVISE;
    return !traits || traits & CLI_ANY_KIND || bo_attention_may(cli_attention_chosen(o).kind, traits);
}

static int check_belonging(const cli_attention_options *o)
{
    static const cli_option *const tables[] = {cli_attention_kind_rows, cli_attention_layer_rows,
                                               cli_attention_array_rows, cli_attention_result_rows};
    if (o->normalizer == BO_NORMALIZER_NONE && !is_placed(o, BO_TRAIT_UNNORMALIZED))
        return misplaced(o, "normalizer none", BO_TRAIT_UNNORMALIZED);
    for (size_t i = 0; i < CLI_COUNT_OF(tables); i++)
        for (const cli_option *row = NULL; (row = cli_next_given(tables[i], o, row));)
            if (!is_placed(o, row->traits)) return misplaced(o, row->name, row->traits);
    return CLI_DONE;
}

cli_attention_options cli_attention_as(const cli_attention_options *o, unsigned kind)
{
    cli_attention_options other = *o;
    other.kind = kind;
    CLI_SET_GIVEN(&other, kind, true);
    for (const cli_option *row = NULL; (row = cli_next_given(cli_attention_layer_rows, &other, row));)
        if (!is_placed(&other, row->traits)) cli_reset_option(row, &other);
    return other;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Checks that the kind accepts the kernel of --map. */
static int check_map(const cli_attention_options *o, const bo_attention_desc *d)
{
    char text[256];
    if (!CLI_GIVEN(o, map) || bo_attention_takes_kernel(d->kind, d->features.kernel)) return CLI_DONE;
    const char *name = cli_attention_map_choice(o->map), *kind = cli_attention_kind_choice(o->kind);
    /* the library reads rbf as no map */
    if (bo_attention_has(d, BO_TRAIT_ANY_KERNEL)) USAGE_ERROR("--map: kind %s does not accept %s", kind, name);
    USAGE_ERROR("--map: kind %s %s %s, found %s (kind linear accepts any map)", kind,
                bo_attention_has(d, BO_TRAIT_PROPOSAL) ? "approximates softmax with" : "accepts",
                cli_attention_map_names(o, text, sizeof text), name);
}

/* The degree p of (1 + s q·k)^p, or of |s q·k|^p. */
static int check_degree(const cli_attention_options *o, const bo_attention_desc *d)
{
    const double p = o->degree;
    if (!CLI_GIVEN(o, degree)) return CLI_DONE;
    if (bo_attention_has(d, BO_TRAIT_POWER)) {
        if (p > 0) return CLI_DONE;
        USAGE_ERROR("--degree: expected a number p > 0 for |s q.k|^p, found %g", p);
    }
    if (d->features.kernel != BO_KERNEL_POLYNOMIAL)
        USAGE_ERROR("--degree applies to the kinds poly and power and to polynomial maps, found kind %s",
                    cli_attention_kind_choice(o->kind));
    if (p >= 1 && p <= 64 && p == floor(p)) return CLI_DONE;
    USAGE_ERROR("--degree: expected an integer p from 1 to 64 for (1 + s q.k)^p, found %g%s", p,
                p > 0 ? " (kind power accepts any positive number)" : "");
}

/* ---- gates and numbers ------------------------------------------------------------------------------------------- */

static int check_gate(const cli_attention_options *o, const bo_attention_desc *d)
{
    const bool given = o->sources[CLI_GATE] || o->sources[CLI_LOG_GATE],
               channels = bo_attention_has(d, BO_TRAIT_CHANNELS);
    if (o->sources[CLI_GATE] && o->sources[CLI_LOG_GATE])
        USAGE_ERROR("--gate and --log-gate exclude each other; use one of them");
    if (given && o->sources[CLI_DECAY])
        USAGE_ERROR(
            "--decay (fixed gates) and --gate or --log-gate (gates per token) exclude each other; use one of them");
    if (given && cli_attention_named(o).gate == BO_GATE_FIXED)
        USAGE_ERROR(
            "--kind %s has fixed gates (--decay); for gates per token use --kind linear --map identity --normalizer "
            "none --causal --%s FILE",
            cli_attention_kind_choice(o->kind), o->sources[CLI_GATE] ? "gate" : "log-gate");
    if (CLI_GIVEN(o, gate_input) && !given) USAGE_ERROR("--gate-input requires --gate or --log-gate");
    if (!given && (channels || d->gate == BO_GATE_CONVEX || d->gate == BO_GATE_DECAY))
        USAGE_ERROR(
            "--kind %s requires --gate or --log-gate: an array of gates in (0, 1] or of their logarithms, with the "
            "shape of the keys%s",
            cli_attention_kind_choice(o->kind), channels ? "" : " without the last dimension");
    if (d->gate != BO_GATE_NONE && !d->causal) USAGE_ERROR("gates require --causal");
    return CLI_DONE;
}

/* True for a list of numbers with an empty element. Other text that is not a list is a file name. */
static bool has_empty_element(const char *text)
{
    const size_t length = strlen(text);
    if (length == 0 || strspn(text, "0123456789.eE+-,") != length) return false;
    return text[0] == ',' || text[length - 1] == ',' || strstr(text, ",,");
}

/* Checks numbers on the command line, instead of a file. */
static int check_number(const cli_attention_options *o, cli_attention_source source, double upper, const char *range)
{
    double numbers[64] = {0};
    const char *option = cli_attention_option(source), *text = o->sources[source];
    if (!text) return CLI_DONE;
    if (has_empty_element(text))
        USAGE_ERROR("--%s: expected %s, found a list with an empty element, '%s'", option, range, text);
    const size_t count = cli_attention_list(text, numbers, CLI_COUNT_OF(numbers));
    for (size_t i = 0; i < count && i < CLI_COUNT_OF(numbers); i++) {
        if (!(numbers[i] > 0 && numbers[i] <= upper))
            USAGE_ERROR("--%s: expected %s, found %g", option, range, numbers[i]);
        if (!(numbers[i] >= FLT_TRUE_MIN && numbers[i] <= FLT_MAX))
            USAGE_ERROR("--%s: expected %s in the range of float32 (1.4e-45 to 3.4e38), found %g", option, range,
                        numbers[i]);
    }
    return CLI_DONE;
}

static int check_numbers(const cli_attention_options *o, const bo_attention_desc *d)
{
    int status = check_number(o, CLI_DECAY, 1, "numbers above 0 and at most 1");
    if (status == CLI_DONE) status = check_number(o, CLI_LAMBDA, HUGE_VAL, "a number above 0");
    if (status != CLI_DONE) return status;
    if ((CLI_GIVEN(o, iterations) || CLI_GIVEN(o, tolerance)) && d->gate == BO_GATE_NONE)
        USAGE_ERROR(
            "--%s applies to gated ridge attention (gated-ridge); without a gate the systems are solved directly",
            CLI_GIVEN(o, tolerance) ? "tolerance" : "iterations");
    if (o->unit && o->no_unit) USAGE_ERROR("--unit and --no-unit exclude each other; use one of them");
    return CLI_DONE;
}

/* ---- options without effect -------------------------------------------------------------------------------------- */

static int check_calibration(const cli_attention_options *o, const bo_attention_desc *d)
{
    const bo_proposal named = cli_attention_named(o).proposal;
    if (named != BO_PROPOSAL_NONE && d->proposal != BO_PROPOSAL_NONE && named != d->proposal)
        USAGE_ERROR("--kind %s has --proposal %s, found --proposal %s (--kind favor accepts any proposal)",
                    cli_attention_kind_choice(o->kind), bo_enum_name(BO_ENUM_PROPOSAL, named),
                    bo_enum_name(BO_ENUM_PROPOSAL, d->proposal));
    const bool data = o->sources[CLI_CALIBRATE_Q] || o->sources[CLI_CALIBRATE_K];
    if (data && !(o->sources[CLI_CALIBRATE_Q] && o->sources[CLI_CALIBRATE_K]))
        USAGE_ERROR("--calibrate-q and --calibrate-k must be used together; --calibrate-%s is missing",
                    o->sources[CLI_CALIBRATE_Q] ? "k" : "q");
    if ((data || CLI_GIVEN(o, calibrate_rows)) && !cli_attention_fits(o, d))
        USAGE_ERROR(
            "--calibrate-%s has no effect: nothing is fitted to data; use favor++, favor#, --proposal, --sampling "
            "optimal, --propose, --whiten or --map oprf",
            data ? "q" : "rows");
    if (o->propose && cli_attention_calibrates(d))
        USAGE_ERROR("--propose excludes kinds, proposals and sampling that fit frequencies to data; use one of them");
    if (!!o->sources[CLI_M] + o->whiten + o->propose > 1)
        USAGE_ERROR("--m, --whiten and --propose exclude each other; use one of them");
    return CLI_DONE;
}

/* Options without effect for the map. */
static int check_idle_map(const cli_attention_options *o, const bo_attention_desc *d)
{
    const bo_features_desc *f = &d->features;
    const char *map = CLI_GIVEN(o, map) ? cli_attention_map_choice(o->map) : bo_enum_name(BO_ENUM_KERNEL, f->kernel);
    const char *idle = CLI_GIVEN(o, draw)                   ? "draw"
                       : o->one_draw                        ? "one-draw"
                       : f->sampling == BO_SAMPLING_OPTIMAL ? "sampling optimal"
                                                            : NULL;
    const bool learned = bo_features_has(f, BO_FEATURES_TRAIT_LEARNED);
    if (d->normalizer == BO_NORMALIZER_NONE && bo_features_has(f, BO_FEATURES_TRAIT_SCALED))
        USAGE_ERROR("--normalizer none: features of the %s kernel require a normalizer",
                    bo_enum_name(BO_ENUM_KERNEL, f->kernel));
    if (d->normalizer == BO_NORMALIZER_NONE && CLI_GIVEN(o, clamp))
        USAGE_ERROR("--clamp has no effect without a normalizer, because there is no denominator");
    if (idle && !bo_features_has(f, BO_FEATURES_TRAIT_LENGTH))
        USAGE_ERROR("--%s has no effect for the %s map, which has no random frequencies", idle, map);
    if (CLI_GIVEN(o, gamma) && (f->kernel == BO_KERNEL_SOFTMAX || learned))
        USAGE_ERROR("--gamma has no effect for the %s map; use %s", map, learned ? "--w" : "--scale");
    const cli_attention_source of_learned[] = {CLI_W, CLI_W_K, CLI_BIAS, CLI_BIAS_K};
    for (size_t i = 0; i < CLI_COUNT_OF(of_learned) && !bo_attention_has(d, BO_TRAIT_AFFINE); i++)
        if (o->sources[of_learned[i]])
            USAGE_ERROR("--%s applies to the kind hybrid with a learned map: --map exponential, hedgehog or rectifier",
                        cli_attention_option(of_learned[i]));
    const bo_attention_desc ranked = {.kind = d->kind, .rank = 1, .features = {.kernel = f->kernel}};
    const char *of_m = o->sources[CLI_M] ? "m" : o->whiten ? "whiten" : NULL;
    if (of_m && !bo_attention_has(&ranked, BO_TRAIT_MATRIX))
        USAGE_ERROR("--%s applies to the kind hybrid with a map of the softmax kernel, found %s", of_m, map);
    if (CLI_GIVEN(o, rank) && !bo_attention_has(&ranked, BO_TRAIT_MATRIX | BO_TRAIT_AFFINE))
        USAGE_ERROR("--rank applies to the kind hybrid with a learned map or one of the softmax kernel, found %s", map);
    return CLI_DONE;
}

/* Checks the options of the feature map. */
static int check_maps(const cli_attention_options *o, const bo_attention_desc *d)
{
    if (!bo_attention_has(d, BO_TRAIT_FEATURES)) return CLI_DONE;
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
    if (!CLI_GIVEN(o, kind) && !o->advise) {
        char text[256];
        USAGE_ERROR("expected --kind or --advise; the kinds are %s", cli_kinds_with(~0u, text, sizeof text));
    }
    int status = check_belonging(o);
    if (status != CLI_DONE || o->advise) return status;
    const bo_attention_desc d = cli_attention_chosen(o);
    for (size_t i = 0; status == CLI_DONE && i < CLI_COUNT_OF(checks); i++) status = checks[i](o, &d);
    if (status != CLI_DONE) return status;
    if (CLI_GIVEN(o, window) && !d.causal) USAGE_ERROR("--window requires --causal");
    if (o->plan && (o->out || o->compare))
        USAGE_ERROR("--plan computes no output, so --%s cannot be used with it", o->out ? "out" : "compare");
    return check_maps(o, &d);
}
