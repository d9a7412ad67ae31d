/* The options of `bochner train`: one table, and what contradicts itself. */
#include "train.h"
#include "paths.h"
#include "plot.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- names --------------------------------------------------------------------------------------------------------------- */

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

static const char *optim_choice(int index)
{
    return index < BO_OPTIMIZER_COUNT ? bo_optimizer_name((bo_optimizer_kind)index) : NULL;
}

static const char *activations_choice(int index)
{
    return index <= BO_STORAGE_BFLOAT16 ? bo_storage_name((bo_storage)index) : NULL;
}

static const char *schedule_choice(int index)
{
    return index < BO_SCHEDULE_COUNT ? bo_schedule_name((bo_schedule_kind)index) : NULL;
}

static const char *factor_choice(int index)
{
    return index < BO_MUON_FACTOR_COUNT ? bo_muon_factor_name((bo_muon_factor)index) : NULL;
}

static const char *iteration_choice(int index)
{
    return index < BO_MUON_ITERATION_COUNT ? bo_muon_iteration_name((bo_muon_iteration)index) : NULL;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------ */

cli_train_options cli_train_defaults(void)
{
    cli_train_options o = {.valid_fraction = 0.1,
                           .preset = -1,
                           .mixer = -1,
                           .ssm = -1,
                           .mlp = -1,
                           .mlp_kernel = -1,
                           .mlp_function = -1,
                           .mlp_draw = -1,
                           .norm = -1,
                           .positions = -1,
                           .query_norm = -1,
                           .output_norm = -1,
                           .dropout = NAN,
                           .gate = -1,
                           .attention = cli_attention_none_given("train"),
                           .lora = {.init = -1},
                           .warmup = CLI_NOT_GIVEN,
                           .clip = 1,
                           .eval_tokens = 32768,
                           .network = {.lambda = 1}};
    o.attention.causal = true;
    return o;
}

#define SECTION(title)                                                                                                 \
    {                                                                                                                  \
        CLI_SECTION, title, NULL, NULL, NULL, NULL, 0, 0                                                               \
    }
#define TEXT(name, argument, help, value)                                                                              \
    {                                                                                                                  \
        CLI_TEXT, name, argument, help, value, NULL, 0, 0                                                              \
    }
#define LIST(name, argument, help, value)                                                                              \
    {                                                                                                                  \
        CLI_LIST, name, argument, help, value, NULL, 0, 0                                                              \
    }
#define COUNT(name, argument, help, value, low, high)                                                                  \
    {                                                                                                                  \
        CLI_COUNT, name, argument, help, value, NULL, low, high                                                        \
    }
#define REAL(name, argument, help, value, low, high)                                                                   \
    {                                                                                                                  \
        CLI_REAL, name, argument, help, value, NULL, low, high                                                         \
    }
#define POSITIVE(name, help, value)                                                                                    \
    {                                                                                                                  \
        CLI_REAL_OR_AUTO, name, "X|auto", help, value, NULL, 0, 0                                                      \
    }
#define CHOICE(name, argument, help, value, choice)                                                                    \
    {                                                                                                                  \
        CLI_CHOICE, name, argument, help, value, choice, 0, 0                                                          \
    }
#define FLAG(name, help, value)                                                                                        \
    {                                                                                                                  \
        CLI_FLAG, name, NULL, help, value, NULL, 0, 0                                                                  \
    }

static size_t table_of_text(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Text"),
        LIST("data", "FILE...", "text, or JSON lines (.jsonl), also gzipped; more files may follow", &o->data),
        TEXT("valid", "FILE", "text to test with while training", &o->valid),
        REAL("valid-fraction", "F", "or this part of the data, its end; 0.1 unless given, 0: none", &o->valid_fraction,
             0, 0.9),
        TEXT("tokenizer", "FILE|DIR", "a tokenizer.json; bytes unless given", &o->tokenizer),
        COUNT("vocab", "N", "tokens: a tokenizer is learned from the data first, where none is given", &o->vocab, 256,
              1 << 24),
        TEXT("field", "NAME", "of JSON lines: the text's name; text unless given", &o->field),
        TEXT("separator", "WORD", "of text files: ends a document; a file is a document unless given", &o->separator),
        FLAG("documents", "states and positions begin anew where documents do", &o->documents),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

static size_t table_of_model(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Model"),
        CHOICE("preset", "NAME", "layers, width, heads and context; tiny unless given", &o->preset, preset_choice),
        COUNT("layers", "N", "in place of the preset's", &o->layers, 1, 1 << 16),
        COUNT("width", "N", "of the stream between layers", &o->width, 1, 1 << 20),
        COUNT("heads", "N", "of attention; they divide the width", &o->heads, 1, 1 << 16),
        COUNT("key-heads", "N", "of keys and values, which divide the heads; as many unless given", &o->key_heads, 1,
              1 << 16),
        COUNT("context", "N", "tokens of a sequence", &o->context, 1, 1 << 30),
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
        COUNT("degree-heads", "H", "of --mlp degree-D: groups of columns, each normalised; 1 unless given",
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
        FLAG("mup", "maximal-update parametrisation: rates found at --base-width serve this width", &o->mup),
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

static size_t table_of_attention(cli_train_options *o, cli_option *out)
{
    cli_attention_options *a = &o->attention;
    const cli_option options[] = {
        SECTION("Attention"),
        CHOICE("attention", "KIND", "rfa-gate unless given", &a->kind, cli_attention_kind_choice),
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
        CHOICE("normaliser", "N", "divide by the sum of the weights, or not", &a->normaliser,
               cli_attention_normaliser_choice),
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

static size_t table_of_learning(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Learning"),
        CHOICE("optim", "KIND", "muon is for hidden matrices, adamw then takes the rest", &o->optim, optim_choice),
        POSITIVE("lr", "rate: 0.02 for muon, 0.003 adamw, 0.1 sgd, 0.001 sign, 1e-4 linf unless given", &o->lr),
        POSITIVE("other-lr", "muon: of what adamw takes; 0.003 unless given", &o->other_lr),
        REAL("decay", "X", "of weights, times the rate; 0 unless given", &o->decay, 0, 1e3),
        REAL("momentum", "X", "muon: 0.95, sgd and sign: 0.9 unless given; negative: none", &o->momentum, -1, 0.9999),
        CHOICE("schedule", "KIND", "how the rate falls", &o->schedule, schedule_choice),
        COUNT("warmup", "N", "steps in which it rises; 2% of all, at least 10, unless given", &o->warmup, 0, 0),
        REAL("floor", "X", "what it falls to, as a part of the rate; 0 unless given", &o->floor, 0, 1),
        REAL("clip", "X", "most norm of a gradient; 1 unless given, negative: any", &o->clip, -1, 1e30),
        REAL("average", "X", "test and keep a moving average of the weights, whose past counts X; none unless given",
             &o->average, 0, 0.999999),
        CHOICE("muon-factor", "KIND", "by the shape of a matrix", &o->muon_factor, factor_choice),
        CHOICE("muon-iteration", "KIND", "of Newton and Schulz", &o->muon_iteration, iteration_choice),
        COUNT("batch", "N", "sequences of a step, over all ranks; 16 unless given", &o->batch, 1, 1 << 24),
        COUNT("micro-batch", "N", "sequences computed at a time; by memory unless given", &o->micro_batch, 1, 1 << 24),
        FLAG("checkpointing", "keep activations of one layer at a time and compute them again: less memory, more time",
             &o->checkpointing),
        CHOICE("activations", "HOW", "wait for the backward pass; bfloat16: in half the memory", &o->activations,
               activations_choice),
        COUNT("steps", "N", "how long", &o->steps, 1, 0),
        REAL("minutes", "M", "or so, turned into steps once; 5 where neither is given", &o->minutes, 0.001, 1e7),
        COUNT("patience", "N", "stop after so many tests without a better one; never unless given", &o->patience, 1, 0),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

static size_t table_of_results(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Results"),
        TEXT("out", "DIR", "folder of the run: the model, checkpoints, metrics.jsonl", &o->out),
        FLAG("resume", "continue the run in that folder, with the options it was started with", &o->resume),
        COUNT("eval-every", "N", "steps between tests; a tenth of all unless given", &o->eval_every, 1, 0),
        COUNT("eval-tokens", "N", "most tokens of a test; 32768 unless given, 0: all", &o->eval_tokens, 0, 0),
        COUNT("checkpoint-every", "N", "steps between checkpoints; as tests unless given", &o->checkpoint_every, 1, 0),
        COUNT("keep", "N", "checkpoints kept, beside the best model; 2 unless given", &o->keep, 1, 1 << 20),
        TEXT("config", "FILE", "a JSON object of options, by their names; the command line wins", &o->config),
        TEXT("plot", "FILE", "picture of the losses; .svg, .png, .pdf", &o->plot),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

size_t cli_train_table(cli_train_options *o, cli_option out[CLI_TRAIN_OPTIONS])
{
    size_t count = table_of_text(o, out);
    count += table_of_model(o, out + count);
    count += table_of_attention(o, out + count);
    count += cli_train_network_table(&o->network, out + count);
    count += cli_train_lora_table(&o->lora, out + count);
    count += table_of_learning(o, out + count);
    return count + table_of_results(o, out + count);
}

size_t cli_train_model_table(cli_train_options *o, cli_option *out)
{
    size_t count = table_of_model(o, out);
    count += table_of_attention(o, out + count);
    return count + table_of_learning(o, out + count);
}

bool cli_train_other_mixer(const cli_train_options *o)
{
    return o->mixer >= 0 && o->mixer != BO_MIXER_ATTENTION;
}

cli_attention_options cli_train_attention(const cli_train_options *o)
{
    cli_attention_options attention = o->attention;
    for (int i = 0; attention.kind < 0; i++)
        if (strcmp(cli_attention_kind_choice(i), "rfa-gate") == 0) attention.kind = i;
    return attention;
}

/* ---- what contradicts itself ------------------------------------------------------------------------------------------------ */

static int check_outputs(const cli_train_words *words)
{
    const cli_train_options *o = &words->options;
    const cli_path outputs[] = {{"plot", o->plot}}, others[] = {{"valid", o->valid}, {"config", o->config}};
    if (o->plot && !cli_plot_known(o->plot))
        return cli_wrong_use("train", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    int status = cli_paths_apart("train", outputs, 1, others, CLI_COUNT_OF(others));
    for (size_t i = 0; i < o->data.count && status == CLI_DONE; i++)
        status = cli_paths_apart("train", outputs, 1, &(cli_path){"data", o->data.items[i]}, 1);
    return status;
}

/* The first option of attention that is given, but for when frequencies are drawn; NULL: none is. */
static const char *attention_option(const cli_train_options *o)
{
    cli_train_options now = *o, before = cli_train_defaults();
    cli_option options[CLI_TRAIN_OPTIONS], others[CLI_TRAIN_OPTIONS];
    const size_t count = table_of_attention(&now, options);
    table_of_attention(&before, others);
    for (size_t i = 0; i < count; i++)
        if (cli_option_differs(&options[i], &others[i]) && options[i].value != &now.calibrate_every)
            return options[i].name;
    return NULL;
}

/* The first option given that is about queries and keys; NULL: none is. */
static const char *query_option(const cli_train_options *o)
{
    const bool turns = o->positions == BO_POSITIONS_ROPE || o->positions == BO_POSITIONS_ROPE_NEIGHBOURS;
    return turns                 ? "positions"
           : o->rope_base > 0    ? "rope-base"
           : o->key_heads        ? "key-heads"
           : o->query_norm >= 0  ? "query-norm"
           : o->output_norm >= 0 ? "output-norm"
                                 : NULL;
}

/* What belongs to one mixer is not given with another. */
static int check_mixer(const cli_train_options *o)
{
    const bool ssm = o->mixer == BO_MIXER_SSM, convolves = ssm || o->mixer == BO_MIXER_CONV;
    const char *of_ssm = o->ssm >= 0 ? "ssm" : o->state_size ? "state-size" : o->state_rank ? "state-rank" : NULL;
    const char *of_attention = attention_option(o);
    if (of_ssm && !ssm) return cli_wrong_use("train", "--%s is an option of --mixer ssm", of_ssm);
    if (o->state_rank && o->ssm <= BO_SSM_DIAGONAL)
        return cli_wrong_use("train", "--state-rank is an option of --ssm closed and --ssm low-rank");
    if (o->kernel && !convolves) return cli_wrong_use("train", "--kernel is an option of --mixer conv and --mixer ssm");
    if (cli_train_other_mixer(o) && of_attention)
        return cli_wrong_use("train", "--%s is an option of --mixer attention, found --mixer %s", of_attention,
                             mixer_choice(o->mixer));
    if (cli_train_other_mixer(o) && o->mixer < BO_MIXER_DEGREE_3 && query_option(o))
        return cli_wrong_use("train", "--%s is an option of mixers with queries and keys, found --mixer %s",
                             query_option(o), mixer_choice(o->mixer));
    return CLI_DONE;
}

/* What belongs to one MLP is not given with another. */
static int check_mlp(const cli_train_options *o)
{
    const char *of_features = o->mlp_kernel >= 0     ? "mlp-kernel"
                              : o->mlp_function >= 0 ? "mlp-function"
                              : o->mlp_draw >= 0     ? "mlp-draw"
                                                     : NULL;
    const bool degree = o->mlp >= BO_MLP_DEGREE_2 && o->mlp <= BO_MLP_DEGREE_E;
    if (of_features && o->mlp != BO_MLP_RANDOM_FEATURES)
        return cli_wrong_use("train", "--%s is an option of --mlp random-features", of_features);
    if (o->hidden && o->mlp == BO_MLP_NONE) return cli_wrong_use("train", "--hidden has no meaning with --mlp none");
    if (o->degree_heads && !degree)
        return cli_wrong_use("train", "--degree-heads is an option of --mlp degree-2, -3, -4 and -e");
    return CLI_DONE;
}

/* A model to begin with has an attention, with all its options, unless another one is named. */
static int check_attention(const cli_train_options *o)
{
    const cli_attention_options attention = cli_train_attention(o);
    const char *given = attention_option(o);
    if (cli_train_other_mixer(o)) return CLI_DONE;
    if (!o->init || o->attention.kind >= 0) return cli_attention_check_layer(&attention);
    if (!given) return CLI_DONE;
    return cli_wrong_use("train", "--%s needs --attention KIND: the attention of --init is taken as it is", given);
}

static int check_parametrization(const cli_train_options *o)
{
    if (o->mup && o->unit_mup) return cli_wrong_use("train", "give --mup or --unit-mup, not both");
    if (o->base_width && !o->mup && !o->unit_mup)
        return cli_wrong_use("train", "--base-width is an option of --mup and --unit-mup");
    return CLI_DONE;
}

int cli_train_check_model(const cli_train_options *o)
{
    int status = check_mixer(o);
    if (status == CLI_DONE) status = check_mlp(o);
    if (status == CLI_DONE) status = check_attention(o);
    return status == CLI_DONE ? check_parametrization(o) : status;
}

/* Options of language models have no place beside --model, and its own none without it. */
static int check_network(const cli_train_words *words)
{
    static const char *const shared[] = {"data", "valid", "valid-fraction", "freeze", "mup", "unit-mup"};
    cli_train_options now = words->options, before = cli_train_defaults();
    cli_option options[CLI_TRAIN_OPTIONS], others[CLI_TRAIN_OPTIONS];
    size_t language = table_of_text(&now, options), count;
    language += table_of_model(&now, options + language);
    language += table_of_attention(&now, options + language);
    count = cli_train_table(&now, options);
    cli_train_table(&before, others);
    const bool network = now.network.model != NULL;
    if (!network) count = language + cli_train_network_table(&now.network, options + language);
    for (size_t i = network ? 0 : language; i < (network ? language : count); i++) {
        bool both = false;
        for (size_t k = 0; k < CLI_COUNT_OF(shared); k++) both = both || strcmp(options[i].name, shared[k]) == 0;
        if (both || !cli_option_differs(&options[i], &others[i])) continue;
        return cli_wrong_use("train",
                             network ? "--%s is an option of language models, not of --model FILE"
                                     : "--%s is an option of networks: it needs --model FILE",
                             options[i].name);
    }
    return network ? cli_train_network_check(words) : CLI_DONE;
}

/* With adapters the model is that of --init, and so is its tokenizer. */
static int check_lora(const cli_train_options *o)
{
    cli_train_options now = *o, before = cli_train_defaults();
    cli_option options[CLI_TRAIN_OPTIONS], others[CLI_TRAIN_OPTIONS];
    size_t count = table_of_model(&now, options);
    count += table_of_attention(&now, options + count);
    table_of_attention(&before, others + table_of_model(&before, others));
    const cli_train_lora *l = &o->lora;
    const char *part = l->alpha > 0 ? "alpha" : l->targets ? "targets" : l->init >= 0 ? "init" : NULL;
    if (!l->rank && part) return cli_wrong_use("train", "--lora-%s is an option of --lora RANK", part);
    if (!l->rank) return CLI_DONE;
    if (o->network.model) return cli_wrong_use("train", "--lora is an option of language models, not of --model FILE");
    if (!o->init && !o->resume) return cli_wrong_use("train", "--lora needs the model of --init DIR");
    if (o->tokenizer || o->vocab)
        return cli_wrong_use("train", "--lora: the tokenizer is that of --init, found --%s",
                             o->tokenizer ? "tokenizer" : "vocab");
    for (size_t i = 0; i < count; i++)
        if (options[i].value != &now.init && options[i].value != &now.freeze &&
            cli_option_differs(&options[i], &others[i]))
            return cli_wrong_use("train", "--lora: the model of --init stays as it is, found --%s", options[i].name);
    return CLI_DONE;
}

int cli_train_check(const cli_train_words *words)
{
    const cli_train_options *o = &words->options;
    if (!o->out) return cli_wrong_use("train", "give --out DIR, the folder of the run");
    if (o->resume && access(o->out, F_OK) != 0 && o->data.count == 0 && words->files.count == 0)
        return cli_wrong_use("train", "--resume: there is no folder %s; a run begins with --data FILE", o->out);
    if (o->data.count == 0 && words->files.count == 0)
        return cli_wrong_use("train",
                             o->resume ? "%s/train.json does not name the text of a run; give --data FILE"
                                       : "%s: no text to learn from; give --data FILE",
                             o->out);
    if (o->steps && o->minutes > 0) return cli_wrong_use("train", "give --steps or --minutes, not both");
    if (o->freeze && !o->init && !o->resume && !o->network.model)
        return cli_wrong_use("train", "--freeze needs the weights of --init DIR");
    if (o->clip == 0) return cli_wrong_use("train", "--clip: expected a norm above 0, or -1 for none, found 0");
    if (o->tokenizer && o->vocab) return cli_wrong_use("train", "give --tokenizer or --vocab, not both");
    int status = check_network(words);
    if (status == CLI_DONE && !o->network.model) status = cli_train_check_model(o);
    if (status == CLI_DONE) status = check_lora(o);
    return status == CLI_DONE ? check_outputs(words) : status;
}
