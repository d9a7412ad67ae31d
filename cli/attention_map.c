/* Kinds of attention and maps of features by the names people know, and which options belong to which. */
#include "attention.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- kinds ---------------------------------------------------------------------------------------------- */

/* RFA with a gate has a name of its own; the other names are the library's. */
static const struct {
    bo_attention_kind kind;
    const char *name;
} kinds[] = {{BO_ATTENTION_EXACT, NULL},     {BO_ATTENTION_LINEAR, NULL}, {BO_ATTENTION_RFA, NULL},
             {BO_ATTENTION_RFA, "rfa-gate"}, {BO_ATTENTION_FAVOR, NULL},  {BO_ATTENTION_DARK, NULL},
             {BO_ATTENTION_HYBRID, NULL}};

const char *cli_attention_kind_choice(int index)
{
    if (index < 0 || (size_t)index >= CLI_COUNT_OF(kinds)) return NULL;
    return kinds[index].name ? kinds[index].name : bo_attention_name(kinds[index].kind);
}

bo_attention_kind cli_attention_kind(const cli_attention_options *options)
{
    return kinds[options->kind].kind;
}

static bool is_rfa_gate(const cli_attention_options *options)
{
    return kinds[options->kind].name != NULL;
}

/* Without BO_GATE_NONE: that is no --gate. */
const char *cli_attention_gate_choice(int index)
{
    return bo_gate_name((bo_gate)(index + BO_GATE_CONVEX));
}

const char *cli_attention_normaliser_choice(int index)
{
    static const char *const names[BO_NORMALISER_COUNT] = {"sum", "none"};
    return index < BO_NORMALISER_COUNT ? names[index] : NULL;
}

/* ---- maps ----------------------------------------------------------------------------------------------- */

/* Then follow the library's kernels up to arccos, each with its first function. */
static const struct {
    const char *name;
    bo_kernel kernel;
    bo_function function;
} maps[] = {{"positive", BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE},
            {"trig", BO_KERNEL_SOFTMAX, BO_FUNCTION_SINCOS},
            {"hyperbolic", BO_KERNEL_SOFTMAX, BO_FUNCTION_HYPERBOLIC},
            {"oprf", BO_KERNEL_SOFTMAX, BO_FUNCTION_OPRF},
            {"elu", BO_KERNEL_ELU, BO_FUNCTION_ELU},
            {"relu", BO_KERNEL_ARCCOS, BO_FUNCTION_RELU},
            {"taylor", BO_KERNEL_TAYLOR, BO_FUNCTION_TAYLOR},
            {"polynomial", BO_KERNEL_POLYNOMIAL, BO_FUNCTION_POLYNOMIAL},
            {"tensorsketch", BO_KERNEL_POLYNOMIAL, BO_FUNCTION_TENSORSKETCH}};

const char *cli_attention_map_choice(int index)
{
    const int own = (int)CLI_COUNT_OF(maps);
    if (index < own) return maps[index].name;
    return index - own <= BO_KERNEL_ARCCOS ? bo_kernel_name((bo_kernel)(index - own)) : NULL;
}

const char *cli_attention_map_of(bo_function function)
{
    for (size_t i = 0; i < CLI_COUNT_OF(maps); i++)
        if (maps[i].function == function) return maps[i].name;
    return bo_function_name(function);
}

/* RFA's sin and cos are those of the RBF kernel: its queries and keys have unit norm. */
static void choose_map(const cli_attention_options *o, bo_features_desc *features)
{
    const int own = (int)CLI_COUNT_OF(maps);
    const bo_attention_kind kind = cli_attention_kind(o);
    if (o->map >= own) {
        features->kernel = (bo_kernel)(o->map - own);
    } else if (o->map >= 0) {
        features->kernel = maps[o->map].kernel;
        features->function = maps[o->map].function;
        if (kind == BO_ATTENTION_RFA && features->function == BO_FUNCTION_SINCOS) features->kernel = BO_KERNEL_RBF;
    } else if (kind == BO_ATTENTION_LINEAR) {
        features->kernel = BO_KERNEL_ELU;
    } else if (kind != BO_ATTENTION_RFA) {
        features->kernel = BO_KERNEL_SOFTMAX;
    }
}

/* Length of the features unless given: the power of two at or above 4 dim. Maps without frequencies fix their own. */
static size_t default_features(const bo_features_desc *features, size_t dim)
{
    const bool fixed = features->kernel >= BO_KERNEL_POLYNOMIAL && features->function != BO_FUNCTION_TENSORSKETCH;
    size_t count = 1;
    while (count < 4 * dim) count *= 2;
    return fixed ? 0 : count;
}

/* E|q + k|² for independent q and k, after the scale: what OPRF is best for. It is unbiased for any other number
 * too, so that M need not be counted in, and arrays with a NaN are left to whoever can say where it is. */
static double pair_norm(const cli_attention_job *job, double scale)
{
    const size_t dim = job->desc.dim;
    const bo_array *arrays[2] = {job->q.array, job->k.array};
    double squares = 0, *means = cli_allocate(2 * dim, sizeof *means, "means"), across = 0;
    for (int a = 0; a < 2; a++) {
        const double rows = (double)(arrays[a]->count / dim);
        for (size_t i = 0; i < arrays[a]->count; i++) {
            const double value = arrays[a]->values[i];
            squares += value * value / rows;
            means[(size_t)a * dim + i % dim] += value / rows;
        }
    }
    for (size_t j = 0; j < dim; j++) across += means[j] * means[dim + j];
    free(means);
    const double norm = scale * (squares + 2 * across);
    return isfinite(norm) ? norm : 1;
}

/* ---- the descriptor ------------------------------------------------------------------------------------- */

/* Maps that stand for exp(s q·k) take softmax's scale; of the others the library's default is 1. */
static double linear_scale(const cli_attention_job *job)
{
    const bo_kernel kernel = job->desc.features.kernel;
    if (job->options->scale > 0) return job->options->scale;
    return kernel == BO_KERNEL_SOFTMAX || kernel == BO_KERNEL_TAYLOR ? 1 / sqrt((double)job->desc.dim) : 0;
}

static size_t given_or_0(size_t count)
{
    return count == CLI_NOT_GIVEN ? 0 : count;
}

void cli_attention_describe(cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    bo_attention_desc *d = &job->desc;
    d->kind = cli_attention_kind(o);
    d->causal = o->causal;
    d->scale = o->scale;
    d->window = given_or_0(o->window);
    d->normaliser = o->normaliser > 0 ? (bo_normaliser)o->normaliser : BO_NORMALISER_SUM;
    d->clamp = o->clamp;
    d->chunk = given_or_0(o->chunk);
    if (d->kind == BO_ATTENTION_EXACT) return;
    if (o->gate || o->log_gate)
        d->gate = o->gate_input >= 0 ? (bo_gate)(o->gate_input + BO_GATE_CONVEX)
                  : is_rfa_gate(o)   ? BO_GATE_CONVEX
                                     : BO_GATE_DECAY;
    d->one_draw = o->one_draw;
    d->temperature = o->temperature;
    if (d->rank == 0) d->rank = given_or_0(o->rank);
    bo_features_desc *f = &d->features;
    choose_map(o, f);
    f->draw = (bo_draw)o->draw;
    f->degree = (int)given_or_0(o->degree);
    f->alpha = o->alpha;
    f->seed = job->session->common.seed;
    f->features = o->features != CLI_NOT_GIVEN ? o->features : default_features(f, d->rank ? d->rank : d->dim);
    if (d->kind == BO_ATTENTION_LINEAR) d->scale = linear_scale(job);
    if (f->function == BO_FUNCTION_OPRF)
        f->pair_norm = pair_norm(job, d->scale > 0 ? d->scale : 1 / sqrt((double)d->dim));
}

/* ---- which options belong to which kind ----------------------------------------------------------------- */

enum {
    EXACT = 1 << BO_ATTENTION_EXACT,
    LINEAR = 1 << BO_ATTENTION_LINEAR,
    RFA = 1 << BO_ATTENTION_RFA,
    FAVOR = 1 << BO_ATTENTION_FAVOR,
    DARK = 1 << BO_ATTENTION_DARK,
    HYBRID = 1 << BO_ATTENTION_HYBRID,
    SUMS = LINEAR | RFA | FAVOR | DARK,
    FEATURES = SUMS | HYBRID,
    ADVISE = 1 << BO_ATTENTION_COUNT,
    ANY = EXACT | FEATURES
};

static const char *kind_words(unsigned mask, char *out, size_t room)
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < BO_ATTENTION_COUNT; i++)
        if (mask & 1u << i)
            used += (size_t)snprintf(out + used, room - used, "%s%s", used ? ", " : "",
                                     bo_attention_name((bo_attention_kind)i));
    return out;
}

static int misplaced(const cli_attention_options *o, const char *option, unsigned belongs)
{
    char words[128];
    if (o->advise)
        return cli_wrong_use("attention", "--%s has no meaning with --advise, which tries kinds and maps itself",
                             option);
    if (belongs == ADVISE) return cli_wrong_use("attention", "--%s is for --advise", option);
    return cli_wrong_use("attention", "--%s is for kind %s; found kind %s", option,
                         kind_words(belongs, words, sizeof words), cli_attention_kind_choice(o->kind));
}

static int check_belonging(const cli_attention_options *o)
{
    const struct {
        const char *name;
        bool given;
        unsigned belongs;
    } table[] = {
        {"map", o->map >= 0, FEATURES},
        {"features", o->features != CLI_NOT_GIVEN, FEATURES},
        {"draw", o->draw > 0, FEATURES},
        {"one-draw", o->one_draw, FEATURES},
        {"degree", o->degree != CLI_NOT_GIVEN, LINEAR | HYBRID},
        {"alpha", o->alpha > 0, LINEAR | HYBRID},
        {"scale", o->scale > 0, ADVISE | (ANY & ~RFA)},
        {"window", o->window != CLI_NOT_GIVEN, EXACT | HYBRID},
        {"temperature", o->temperature > 0, RFA},
        {"sigma", o->sigma != NULL, RFA},
        {"m", o->m != NULL, DARK},
        {"rank", o->rank != CLI_NOT_GIVEN, DARK},
        {"whiten", o->whiten, DARK},
        {"propose", o->propose, FAVOR | DARK},
        {"mix", o->mix != NULL, HYBRID},
        {"gate", o->gate != NULL, SUMS},
        {"log-gate", o->log_gate != NULL, SUMS},
        {"gate-input", o->gate_input >= 0, SUMS},
        {"normaliser none", o->normaliser == BO_NORMALISER_NONE, LINEAR | RFA},
        {"normaliser", o->normaliser >= 0, SUMS},
        {"clamp", o->clamp > 0, FEATURES},
        {"chunk", o->chunk != CLI_NOT_GIVEN, FEATURES},
        {"compare", o->compare, ANY},
        {"out", o->out != NULL, ANY},
        {"plan", o->plan, ANY},
        {"kind", o->kind >= 0, ANY},
        {"target", o->target > 0, ADVISE},
        {"most", o->most != CLI_NOT_GIVEN, ADVISE},
    };
    const unsigned found = o->advise ? (unsigned)ADVISE : 1u << cli_attention_kind(o);
    for (size_t i = 0; i < CLI_COUNT_OF(table); i++)
        if (table[i].given && !(table[i].belongs & found)) return misplaced(o, table[i].name, table[i].belongs);
    return CLI_DONE;
}

/* The kernels that kinds other than linear take. */
static int check_map(const cli_attention_options *o)
{
    bo_features_desc f = {0};
    choose_map(o, &f);
    const char *name = cli_attention_map_choice(o->map), *kind = cli_attention_kind_choice(o->kind);
    switch (cli_attention_kind(o)) {
    case BO_ATTENTION_RFA:
        if (f.kernel == BO_KERNEL_RBF || f.kernel == BO_KERNEL_ARCCOS) return CLI_DONE;
        return cli_wrong_use("attention", "--map: kind %s takes trig or relu; found %s", kind, name);
    case BO_ATTENTION_FAVOR:
    case BO_ATTENTION_DARK:
        if (f.kernel == BO_KERNEL_SOFTMAX) return CLI_DONE;
        return cli_wrong_use("attention",
                             "--map: kind %s estimates softmax: positive, trig, hyperbolic or oprf; found %s (kind "
                             "linear takes any map)",
                             kind, name);
    case BO_ATTENTION_HYBRID: /* to the library, a hybrid's rbf is a map that was not given */
        if (f.kernel != BO_KERNEL_RBF) return CLI_DONE;
        return cli_wrong_use("attention", "--map: kind hybrid does not take %s", name);
    default:
        return CLI_DONE;
    }
}

/* Options that would do nothing beside others that were given. */
static int check_idle(const cli_attention_options *o)
{
    bo_features_desc f = {0};
    if (o->plan && (o->out || o->compare))
        return cli_wrong_use("attention", "--plan computes nothing: there is nothing to %s",
                             o->out ? "write for --out" : "--compare");
    if (cli_attention_kind(o) == BO_ATTENTION_EXACT) return CLI_DONE;
    choose_map(o, &f);
    if (o->normaliser == BO_NORMALISER_NONE && f.kernel == BO_KERNEL_SOFTMAX)
        return cli_wrong_use("attention", "--normaliser none: features of the softmax kernel need a normaliser");
    if (o->normaliser == BO_NORMALISER_NONE && o->clamp > 0)
        return cli_wrong_use("attention", "--clamp has no meaning with --normaliser none: there is no denominator");
    const char *idle = o->draw > 0 ? "draw" : o->one_draw ? "one-draw" : NULL;
    if (idle && f.kernel >= BO_KERNEL_POLYNOMIAL && f.function != BO_FUNCTION_TENSORSKETCH)
        return cli_wrong_use("attention", "--%s has no meaning for the %s map, which draws no frequencies", idle,
                             o->map >= 0 ? cli_attention_map_choice(o->map) : "elu");
    return CLI_DONE;
}

int cli_attention_check(const cli_attention_options *o)
{
    if (o->kind < 0 && !o->advise) {
        char words[128];
        return cli_wrong_use("attention", "give --kind, one of %s or rfa-gate (or --advise)",
                             kind_words(ANY, words, sizeof words));
    }
    int status = check_belonging(o);
    if (status != CLI_DONE || o->advise) return status;
    const bool gated = o->gate || o->log_gate;
    if (o->gate && o->log_gate) return cli_wrong_use("attention", "give --gate or --log-gate, not both");
    if (is_rfa_gate(o) && !gated) return cli_wrong_use("attention", "--kind rfa-gate needs --gate or --log-gate");
    if (o->gate_input >= 0 && !gated) return cli_wrong_use("attention", "--gate-input needs --gate or --log-gate");
    if (gated && !o->causal) return cli_wrong_use("attention", "a gate needs --causal");
    if (o->window != CLI_NOT_GIVEN && !o->causal) return cli_wrong_use("attention", "--window needs --causal");
    if (cli_attention_kind(o) == BO_ATTENTION_HYBRID && !o->causal)
        return cli_wrong_use("attention", "--kind hybrid needs --causal");
    if (!!o->m + o->whiten + o->propose > 1)
        return cli_wrong_use("attention",
                             "give one of --m, --whiten and --propose: each says where frequencies or M come from");
    status = check_idle(o);
    return status == CLI_DONE && o->map >= 0 ? check_map(o) : status;
}
