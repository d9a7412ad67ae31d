/* The options of `bochner train` that describe a model: its shape and its attention. */
#include "../common/rows.h"
#include "train.h"
#include <string.h>

static const char *preset_choice(int index)
{
    return bo_model_preset_name((size_t)index);
}

static const char *mlp_choice(int index)
{
    return index < BO_MLP_COUNT ? bo_mlp_name((bo_mlp)index) : NULL;
}

static const char *mixer_choice(int index)
{
    return index < BO_MIXER_COUNT ? bo_mixer_name((bo_mixer)index) : NULL;
}

static const char *ssm_choice(int index)
{
    return index < BO_SSM_COUNT ? bo_ssm_name((bo_ssm)index) : NULL;
}

static const char *norm_choice(int index)
{
    return index < BO_NORM_COUNT ? bo_norm_name((bo_norm)index) : NULL;
}

static const char *positions_choice(int index)
{
    return index < BO_POSITIONS_COUNT ? bo_positions_name((bo_positions)index) : NULL;
}

/* As bo_choice has them. */
static const char *yes_no_choice(int index)
{
    static const char *const names[] = {"auto", "no", "yes"};
    return index < 3 ? names[index] : NULL;
}

static const char *gate_choice(int index)
{
    return index < BO_GATE_COUNT ? bo_gate_name((bo_gate)index) : NULL;
}

size_t cli_train_shape_table(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Model"),
        CHOICE("preset", "NAME", "layers, width, heads and context; tiny unless given", &o->preset, preset_choice),
        COUNT("layers", "N", "in place of the preset's", &o->layers, 1, 1 << 16),
        COUNT("width", "N", "of the stream between layers", &o->width, 1, 1 << 20),
        COUNT("heads", "N", "of attention; they divide the width", &o->heads, 1, 1 << 16),
        COUNT("key-heads", "N", "of keys and values, which divide the heads; as many unless given", &o->key_heads, 1,
              1 << 16),
        COUNT("context", "N",
              "tokens of a sequence; with a --task the most of a text: labeled ones are cut there, longer "
              "translations refused",
              &o->context, 1, 1 << 30),
        CHOICE("mixer", "KIND", "what lets tokens see each other; attention unless given", &o->mixer, mixer_choice),
        CHOICE("ssm", "KIND", "of mixer ssm: how its states go on; diagonal unless given", &o->ssm, ssm_choice),
        COUNT("state-size", "N", "of mixer ssm: numbers of a channel's state; 16 unless given", &o->state_size, 1,
              1 << 16),
        COUNT("state-rank", "R", "of --ssm closed and low-rank: columns of P; 1 unless given", &o->state_rank, 1,
              1 << 16),
        COUNT("kernel", "K", "tokens of a convolution: of mixer conv 64, of mixer ssm 4 unless given", &o->kernel, 1,
              1 << 20),
        CHOICE("mlp", "KIND", "between the attentions; relu2 unless given", &o->mlp, mlp_choice),
        COUNT("hidden", "N", "width within it, or its features; 4 widths, or for as many weights, unless given",
              &o->hidden, 1, 1 << 24),
        CHOICE("mlp-kernel", "K", "of --mlp random-features: which similarity; rbf unless given", &o->mlp_kernel,
               cli_kernel_choice),
        CHOICE("mlp-function", "F", "… which function of the projections", &o->mlp_function, cli_function_choice),
        CHOICE("mlp-draw", "D", "… how frequencies are coupled", &o->mlp_draw, cli_draw_choice),
        COUNT("degree-heads", "H", "of --mlp degree-D: groups of columns, each normalized; 1 unless given",
              &o->degree_heads, 1, 1 << 16),
        CHOICE("norm", "KIND", "rms unless given", &o->norm, norm_choice),
        CHOICE("positions", "KIND", "rope unless given", &o->positions, positions_choice),
        POSITIVE("rope-base", "of the wavelengths of rope; 10000 unless given", &o->rope_base),
        CHOICE("query-norm", "WHEN", "norm of queries and keys; auto: where the attention does not do so itself",
               &o->query_norm, yes_no_choice),
        CHOICE("output-norm", "WHEN", "norm of each head's output; auto: where it is not divided by a sum",
               &o->output_norm, yes_no_choice),
        FLAG("untied", "an output projection apart from the embedding", &o->untied),
        FLAG("bias", "of linear layers", &o->bias),
        FLAG("mup", "maximal-update parametrization: rates found at --base-width serve this width", &o->mup),
        FLAG("unit-mup", "its unit-scaled form: numbers begin near 1; untied", &o->unit_mup),
        COUNT("base-width", "N", "of --mup and --unit-mup: where rates were found; 128 unless given", &o->base_width, 1,
              1 << 20),
        FLAG("float8", "simulate products of 8-bit floats: values E4M3, gradients E5M2", &o->float8),
        REAL("dropout", "P", "0 unless given", &o->dropout, 0, 0.95),
        TEXT("init", "DIR", "begin with the weights of this model, as far as they fit; what is new is named", &o->init),
        TEXT("freeze", "NAMES", "weights that stay: beginnings of names, or patterns with *, separated by commas",
             &o->freeze),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

size_t cli_train_attention_table(cli_train_options *o, cli_option *out)
{
    cli_attention_options *a = &o->attention;
    const cli_option options[] = {
        SECTION("Attention"),
        CHOICE("attention", "KIND", "rfa-gate, to label texts rfa, unless given", &a->kind, cli_attention_kind_choice),
        CHOICE("gate", "KIND", "in place of the kind's", &o->gate, gate_choice),
        REAL("gate-first", "X", "where the gate of the first head begins, sigmoid(X); 1 unless given", &o->gate_first,
             -30, 30),
        REAL("gate-last", "X", "and that of the last head, others in between; 5 unless given", &o->gate_last, -30, 30),
        POSITIVE("sigma", "where the scale of queries and keys before features begins; 1, hybrid 3, unless given",
                 &o->sigma),
        CHOICE("map", "MAP", "of features, in place of the kind's", &a->map, cli_attention_map_choice),
        COUNT("features", "D", "length of the feature vector; 128 unless given; exact maps fix it", &a->features, 1, 0),
        CHOICE("draw", "D", "how frequencies are coupled", &a->draw, cli_draw_choice),
        FLAG("one-draw", "all heads of a layer share their frequencies", &a->one_draw),
        CHOICE("proposal", "LAW", "the law that frequencies are drawn from, fitted to data", &a->proposal,
               cli_attention_proposal_choice),
        CHOICE("sampling", "S", "optimal: of many frequencies those that matter to the data", &a->sampling,
               cli_attention_sampling_choice),
        COUNT("calibrate-every", "N",
              "steps between new frequencies that are drawn for data; only at the start unless given",
              &o->calibrate_every, 1, 0),
        COUNT("window", "W", "hybrid, exact, power: the latest keys that are exact, or seen at all", &a->window, 1, 0),
        REAL("degree", "P", "of poly and power; 2 unless given", &a->degree, 0, 0),
        CHOICE("normalizer", "N", "divide by the sum of the weights, or not", &a->normalizer,
               cli_attention_normalizer_choice),
        POSITIVE("clamp", "least denominator", &a->clamp),
        POSITIVE("scale", "of q.k; 1/sqrt(width of a head) unless given", &a->scale),
        POSITIVE("temperature", "rfa: queries and keys of unit norm are divided by it; 1 unless given",
                 &a->temperature),
        POSITIVE("gamma", "hybrid: of a map that does not estimate softmax", &a->gamma),
        POSITIVE("alpha", "of rational-quadratic", &a->alpha),
        COUNT("rank", "R", "dark, hedgehog, t2r: rows of M or W", &a->rank, 1, 0),
        FLAG("unit", "gla, ridge: queries and keys of unit norm, as delta has them", &a->unit),
        FLAG("no-unit", "delta: queries and keys as they are", &a->no_unit),
        COUNT("iterations", "N", "gated-ridge: most steps before a system is solved directly", &a->iterations, 1,
              1 << 20),
        POSITIVE("tolerance", "gated-ridge: residual to reach", &a->tolerance),
        COUNT("chunk", "C", "tokens taken at a time; from shape and caches unless given", &a->chunk, 1, 1024),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

bool cli_train_other_mixer(const cli_train_options *o)
{
    return o->mixer >= 0 && o->mixer != BO_MIXER_ATTENTION;
}

cli_attention_options cli_train_attention(const cli_train_options *o)
{
    cli_attention_options attention = o->attention;
    const bool labels = o->texts.task == BO_MODEL_CLASSIFY || o->texts.task == BO_MODEL_MATCH;
    const char *usual = labels ? "rfa" : "rfa-gate"; /* docs/results.md: what does best of the two */
    for (int i = 0; attention.kind < 0; i++)
        if (strcmp(cli_attention_kind_choice(i), usual) == 0) attention.kind = i;
    return attention;
}
