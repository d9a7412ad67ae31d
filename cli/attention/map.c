/* Names of kinds of attention and of feature maps, and the descriptor that options describe. */
#include "attention.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

const char *cli_attention_kind_choice(unsigned index)
{
    return bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)index);
}

const char *cli_attention_normalizer_choice(unsigned index)
{
    static const char *const names[] = {"sum", "none"};
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

const char *cli_attention_option(cli_attention_source source)
{
    const size_t at = offsetof(cli_attention_options, sources) + (size_t)source * sizeof(const char *);
    const cli_option *row = cli_attention_array_rows;
    while (row->type == CLI_SECTION || row->at != at) row++;
    return row->name;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* The kernels of the library up to arccos follow, each with its first function. */
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
            {"tensorsketch", BO_KERNEL_POLYNOMIAL, BO_FUNCTION_TENSORSKETCH},
            {"selftensor", BO_KERNEL_POLYNOMIAL, BO_FUNCTION_SELFTENSOR},
            {"identity", BO_KERNEL_LINEAR, BO_FUNCTION_IDENTITY},
            {"exponential", BO_KERNEL_COSH, BO_FUNCTION_EXPONENTIAL},
            {"hedgehog", BO_KERNEL_HEDGEHOG, BO_FUNCTION_HEDGEHOG},
            {"rectifier", BO_KERNEL_RECTIFIER, BO_FUNCTION_RECTIFIER}};

const char *cli_attention_map_choice(unsigned index)
{
    const unsigned named_count = (unsigned)CLI_COUNT_OF(maps);
    if (index < named_count) return maps[index].name;
    return index - named_count <= BO_KERNEL_ARCCOS ? bo_enum_name(BO_ENUM_KERNEL, (bo_kernel)(index - named_count))
                                                   : NULL;
}

const char *cli_attention_map_of(bo_function function)
{
    for (size_t i = 0; i < CLI_COUNT_OF(maps); i++)
        if (maps[i].function == function) return maps[i].name;
    return bo_enum_name(BO_ENUM_FUNCTION, function);
}

/* Applies --map. In RFA, sin and cos are features of the RBF kernel, because queries and keys have unit norm. */
static void choose_map(const cli_attention_options *o, bo_attention_desc *d)
{
    const unsigned named_count = (unsigned)CLI_COUNT_OF(maps);
    bo_features_desc *features = &d->features;
    if (CLI_GIVEN(o, map) && o->map >= named_count) {
        *features = (bo_features_desc){.kernel = (bo_kernel)(o->map - named_count)};
    } else if (CLI_GIVEN(o, map)) {
        *features = (bo_features_desc){.kernel = maps[o->map].kernel, .function = maps[o->map].function};
        if (bo_attention_has(d, BO_TRAIT_UNIT_ROWS) && features->function == BO_FUNCTION_SINCOS)
            features->kernel = BO_KERNEL_RBF;
    } else if (bo_attention_has(d, BO_TRAIT_PROPOSAL)) {
        features->kernel = BO_KERNEL_SOFTMAX; /* the library's default */
    }
}

const char *cli_attention_map_names(const cli_attention_options *o, char *out, size_t out_size)
{
    const char *names[CLI_COUNT_OF(maps)];
    size_t count = 0, used = 0;
    out[0] = 0;
    for (size_t i = 0; i < CLI_COUNT_OF(maps); i++) {
        cli_attention_options tried = *o;
        tried.map = (int)i;
        const bo_attention_desc d = cli_attention_chosen(&tried);
        if (bo_attention_takes_kernel(d.kind, d.features.kernel)) names[count++] = maps[i].name;
    }
    for (size_t i = 0; i < count && used < out_size; i++)
        used += (size_t)snprintf(out + used, out_size - used, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 names[i]);
    return out;
}

/* Default number of features: the smallest power of two that is at least 4 dim; for self-tensored sketches the smallest
 * r(r + 1)/2 that is at least 4 dim. 0 for maps without frequencies, which have a fixed number of features. */
static size_t default_features(const bo_features_desc *features, size_t dim)
{
    size_t count = 1, r = 1;
    if (!bo_features_has(features, BO_FEATURES_TRAIT_LENGTH)) return 0;
    while (count < 4 * dim) count *= 2;
    while (r * (r + 1) / 2 < 4 * dim) r++;
    return features->function == BO_FUNCTION_SELFTENSOR ? r * (r + 1) / 2 : count;
}

/* E|q + k|² for independent q and k of the sample, after scaling: the optimal parameter of OPRF. OPRF is unbiased for
 * any value, so M is ignored. For arrays with NaN, which are reported later, the result is 1. */
static double pair_norm(const cli_attention_job *job, double scale)
{
    const cli_attention_sample *s = &job->sample;
    const size_t dim = job->desc.dim, sequences = s->call.sequences,
                 rows[2] = {sequences * job->desc.heads * s->call.tokens,
                            sequences * job->desc.key_heads * s->call.key_tokens};
    double squares = 0, *means = cli_allocate(2 * dim, sizeof *means, "means"), across = 0;
    for (int a = 0; a < 2; a++) {
        const float *values = a == 0 ? s->call.q.data : s->call.k.data;
        for (size_t i = 0; i < rows[a] * dim; i++) {
            const double value = values[i];
            squares += value * value / (double)rows[a];
            means[(size_t)a * dim + i % dim] += value / (double)rows[a];
        }
    }
    for (size_t j = 0; j < dim; j++) across += means[j] * means[dim + j];
    free(means);
    const double norm = scale * (squares + 2 * across);
    return isfinite(norm) ? norm : 1;
}

/* ---- the descriptor ---------------------------------------------------------------------------------------------- */

/* The requested gate. GLA always has gates. */
static bo_gate choose_gate(const cli_attention_options *o, const bo_attention_desc *preset)
{
    if (o->sources[CLI_DECAY]) return BO_GATE_FIXED;
    if (CLI_GIVEN(o, gate_input)) return o->gate_input;
    const bool gated =
        (o->sources[CLI_GATE] || o->sources[CLI_LOG_GATE]) && !bo_attention_has(preset, BO_TRAIT_CHANNELS);
    return gated && preset->gate != BO_GATE_CONVEX ? BO_GATE_DECAY : preset->gate;
}

bo_attention_desc cli_attention_named(const cli_attention_options *o)
{
    bo_attention_desc d = {0};
    bo_attention_preset(cli_attention_kind_choice(o->kind), &d);
    return d;
}

bo_attention_desc cli_attention_chosen(const cli_attention_options *o)
{
    bo_attention_desc d = cli_attention_named(o);
    d.causal |= o->causal;
    d.gate = choose_gate(o, &d);
    if (CLI_GIVEN(o, normalizer)) d.normalizer = o->normalizer;
    if (CLI_GIVEN(o, proposal)) d.proposal = o->proposal;
    d.unit = (d.unit || o->unit) && !o->no_unit;
    choose_map(o, &d);
    if (CLI_GIVEN(o, sampling)) d.features.sampling = o->sampling;
    return d;
}

static void number_features(const cli_attention_options *o, uint64_t seed, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    d->one_draw = o->one_draw;
    f->draw = o->draw;
    f->degree = (int)o->degree;
    f->alpha = o->alpha;
    f->gamma = o->gamma;
    f->seed = seed;
    f->features = o->features;
}

bo_attention_desc cli_attention_numbered(const cli_attention_options *o, uint64_t seed)
{
    bo_attention_desc d = cli_attention_chosen(o);
    d.rank = o->rank;
    d.scale = o->scale;
    d.window = o->window;
    d.clamp = o->clamp;
    d.chunk = o->chunk;
    d.temperature = o->temperature;
    d.iterations = o->iterations;
    d.tolerance = o->tolerance;
    if (bo_attention_has(&d, BO_TRAIT_POWER) && CLI_GIVEN(o, degree)) d.power = o->degree;
    if (bo_attention_has(&d, BO_TRAIT_FEATURES)) number_features(o, seed, &d);
    return d;
}

/* Sets the members that depend on shapes and arrays. */
static void fit_features(cli_attention_job *job)
{
    bo_attention_desc *d = &job->desc;
    bo_features_desc *f = &d->features;
    if (!f->features) f->features = default_features(f, d->rank ? d->rank : d->dim);
    if (f->function == BO_FUNCTION_OPRF)
        f->pair_norm = pair_norm(job, d->scale > 0 ? d->scale : 1 / sqrt((double)d->dim));
}

void cli_attention_describe(cli_attention_job *job)
{
    bo_attention_desc *d = &job->desc, sizes = job->desc;
    *d = cli_attention_numbered(job->options, job->session->common.seed);
    d->heads = sizes.heads;
    d->key_heads = sizes.key_heads;
    d->dim = sizes.dim;
    d->value_dim = sizes.value_dim;
    if (sizes.rank) d->rank = sizes.rank;
    if (job->options->whiten && !d->rank) d->rank = d->dim; /* hybrid has an M only with a rank */
    if (bo_attention_has(d, BO_TRAIT_FEATURES)) fit_features(job);
}
