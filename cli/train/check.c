/* Options of `bochner train` that contradict each other. */
#include "../common/paths.h"
#include "../common/plot.h"
#include "train.h"
#include <string.h>
#include <unistd.h>

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
    const size_t count = cli_train_attention_table(&now, options);
    cli_train_attention_table(&before, others);
    for (size_t i = 0; i < count; i++)
        if (cli_option_differs(&options[i], &others[i]) && options[i].value != &now.calibrate_every)
            return options[i].name;
    return NULL;
}

/* The first option given that is about queries and keys; NULL: none is. */
static const char *query_option(const cli_train_options *o)
{
    const bool turns = o->positions == BO_POSITIONS_ROPE || o->positions == BO_POSITIONS_ROPE_NEIGHBORS;
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
                             bo_mixer_name((bo_mixer)o->mixer));
    if (cli_train_other_mixer(o) && o->mixer < BO_MIXER_DEGREE_3 && query_option(o))
        return cli_wrong_use("train", "--%s is an option of mixers with queries and keys, found --mixer %s",
                             query_option(o), bo_mixer_name((bo_mixer)o->mixer));
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
    size_t language = cli_train_text_table(&now, options), count;
    language += cli_train_texts_table(&now.texts, options + language);
    language += cli_train_shape_table(&now, options + language);
    language += cli_train_attention_table(&now, options + language);
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
    size_t count = cli_train_shape_table(&now, options);
    count += cli_train_attention_table(&now, options + count);
    cli_train_attention_table(&before, others + cli_train_shape_table(&before, others));
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
    if (status == CLI_DONE) status = cli_train_texts_check(o);
    if (status == CLI_DONE && !o->network.model) status = cli_train_check_model(o);
    if (status == CLI_DONE) status = check_lora(o);
    return status == CLI_DONE ? check_outputs(words) : status;
}
