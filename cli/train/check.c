/* Options of `bochner train` that contradict each other. */
#include "../common/paths.h"
#include "../common/plot.h"
#include "train.h"
#include <string.h>
#include <unistd.h>

static int check_outputs(const cli_train_args *args)
{
    const cli_train_options *o = &args->options;
    const cli_path outputs[] = {{"plot", o->plot}}, inputs[] = {{"valid", o->valid}, {"config", o->config}};
    if (o->plot && !cli_plot_known(o->plot))
        return cli_usage_error("train", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    int status = cli_paths_apart("train", outputs, 1, inputs, CLI_COUNT_OF(inputs));
    for (size_t i = 0; i < o->data.count && status == CLI_DONE; i++)
        status = cli_paths_apart("train", outputs, 1, &(cli_path){"data", o->data.items[i]}, 1);
    return status;
}

const cli_option *cli_train_given(const cli_option *rows, const void *options, const char *const *except)
{
    for (const cli_option *row = NULL; (row = cli_next_given(rows, options, row));) {
        const char *const *name = except;
        while (*name && strcmp(*name, row->name) != 0) name++;
        if (!*name) return row;
    }
    return NULL;
}

const cli_option *cli_train_attention_given(const cli_train_options *o, const char *const *except)
{
    const cli_option *row = cli_train_given(cli_train_kind_rows, &o->attention, except);
    if (!row) row = cli_train_given(cli_attention_layer_rows, &o->attention, except);
    if (!row) row = cli_train_given(cli_train_whiten_rows, &o->attention, except);
    return row ? row : cli_train_given(cli_train_attention_rows, o, except);
}

/* The first given attention option, except training options; NULL: none. */
static const char *attention_option(const cli_train_options *o)
{
    static const char *const except[] = {"calibrate-every", "redraw", NULL};
    const cli_option *row = cli_train_attention_given(o, except);
    return row ? row->name : NULL;
}

/* The first given option about queries and keys; NULL: none. */
static const char *query_option(const cli_train_options *o)
{
    const bool turns =
        CLI_GIVEN(o, positions) && (o->positions == BO_POSITIONS_ROPE || o->positions == BO_POSITIONS_ROPE_NEIGHBORS);
    return turns                       ? "positions"
           : CLI_GIVEN(o, rope_base)   ? "rope-base"
           : CLI_GIVEN(o, key_heads)   ? "key-heads"
           : CLI_GIVEN(o, query_norm)  ? "query-norm"
           : CLI_GIVEN(o, output_norm) ? "output-norm"
                                       : NULL;
}

/* Refuses options of other mixers. */
static int check_mixer(const cli_train_options *o)
{
    const bool ssm = o->mixer == BO_MIXER_SSM, convolves = ssm || o->mixer == BO_MIXER_CONV;
    const char *of_ssm = CLI_GIVEN(o, ssm)          ? "ssm"
                         : CLI_GIVEN(o, state_size) ? "state-size"
                         : CLI_GIVEN(o, state_rank) ? "state-rank"
                                                    : NULL;
    const char *of_attention = attention_option(o);
    if (of_ssm && !ssm) return cli_usage_error("train", "--%s needs --mixer ssm", of_ssm);
    if (CLI_GIVEN(o, state_rank) && o->ssm == BO_SSM_DIAGONAL)
        return cli_usage_error("train", "--state-rank needs --ssm closed or --ssm low-rank");
    if (CLI_GIVEN(o, kernel) && !convolves)
        return cli_usage_error("train", "--kernel needs --mixer conv or --mixer ssm");
    if (cli_train_other_mixer(o) && of_attention)
        return cli_usage_error("train", "--%s needs --mixer attention, found --mixer %s", of_attention,
                               bo_enum_name(BO_ENUM_MIXER, o->mixer));
    const bool queries = o->mixer == BO_MIXER_DEGREE_3 || o->mixer == BO_MIXER_DEGREE_4;
    if (cli_train_other_mixer(o) && !queries && query_option(o))
        return cli_usage_error("train", "--%s needs a mixer with queries and keys, found --mixer %s", query_option(o),
                               bo_enum_name(BO_ENUM_MIXER, o->mixer));
    return CLI_DONE;
}

/* Refuses options of other MLPs. */
static int check_mlp(const cli_train_options *o)
{
    const char *of_features = CLI_GIVEN(o, mlp_kernel)     ? "mlp-kernel"
                              : CLI_GIVEN(o, mlp_function) ? "mlp-function"
                              : CLI_GIVEN(o, mlp_draw)     ? "mlp-draw"
                                                           : NULL;
    const bool degree = o->mlp >= BO_MLP_DEGREE_2 && o->mlp <= BO_MLP_DEGREE_E;
    if (of_features && o->mlp != BO_MLP_RANDOM_FEATURES)
        return cli_usage_error("train", "--%s needs --mlp random-features", of_features);
    if (CLI_GIVEN(o, hidden) && o->mlp == BO_MLP_NONE)
        return cli_usage_error("train", "--hidden has no effect with --mlp none; leave it out");
    if (CLI_GIVEN(o, degree_heads) && !degree)
        return cli_usage_error("train", "--degree-heads needs --mlp degree-2, degree-3, degree-4 or degree-e");
    return CLI_DONE;
}

/* With --init, the attention and all its options come from that model unless --attention is given. */
static int check_attention(const cli_train_options *o, const cli_train_kind *kind)
{
    const cli_attention_options attention = cli_train_attention(o, kind);
    const char *given = attention_option(o);
    if (cli_train_other_mixer(o)) return CLI_DONE;
    if (o->attention.whiten && kind != &cli_train_language)
        return cli_usage_error("train", "--whiten needs a language model; leave it out with --task");
    if (!o->init || CLI_GIVEN(&o->attention, kind)) return cli_attention_check_layer(&attention);
    if (!given) return CLI_DONE;
    return cli_usage_error("train",
                           "--%s needs --attention KIND; without it, the attention of --init is used unchanged", given);
}

static int check_parametrization(const cli_train_options *o)
{
    if (o->mup && o->unit_mup) return cli_usage_error("train", "give --mup or --unit-mup, not both");
    if (CLI_GIVEN(o, base_width) && !o->mup && !o->unit_mup)
        return cli_usage_error("train", "--base-width needs --mup or --unit-mup");
    return CLI_DONE;
}

/* Refuses options about layers with --blocks, which describes them. */
static int check_blocks(const cli_train_options *o)
{
    static const char *const of_models[] = {"blocks",          "layers",     "width",  "context", "untied", "mup",
                                            "unit-mup",        "base-width", "float8", "dropout", "init",   "freeze",
                                            "calibrate-every", "redraw",     "whiten", NULL};
    static const char *const of_texts[] = {"task",    "pack",           "smoothing", "pooling",
                                           "forward", "encoder-layers", "cross",     NULL};
    const cli_option *found = cli_train_given(cli_train_shape_rows, o, of_models);
    if (!found) found = cli_train_attention_given(o, of_models);
    if (!found) found = cli_train_given(cli_train_texts_rows, &o->texts, of_texts);
    if (!found) return CLI_DONE;
    return cli_usage_error("train", "--%s and --blocks both describe layers; leave out one of them", found->name);
}

int cli_train_check_model(const cli_train_options *o, const cli_train_kind *kind)
{
    if (o->blocks) {
        const int blocks = check_blocks(o);
        return blocks == CLI_DONE ? check_parametrization(o) : blocks;
    }
    int status = check_mixer(o);
    if (status == CLI_DONE) status = check_mlp(o);
    if (status == CLI_DONE) status = check_attention(o, kind);
    return status == CLI_DONE ? check_parametrization(o) : status;
}

int cli_train_check_text(const cli_train_options *o, const cli_train_kind *kind)
{
    if (CLI_GIVEN(o, state_windows) && !o->stateful)
        return cli_usage_error("train", "--state-windows needs --stateful");
    if (o->freeze && !o->init && !o->resume)
        return cli_usage_error("train", "--freeze needs --init DIR, whose weights it freezes");
    return cli_train_check_model(o, kind);
}

int cli_train_check(const cli_train_args *args)
{
    const cli_train_options *o = &args->options;
    if (!o->out) return cli_usage_error("train", "no directory for the run; give --out DIR");
    if (o->resume && access(o->out, F_OK) != 0 && o->data.count == 0 && args->files.count == 0)
        return cli_usage_error("train", "--resume: there is no directory %s; to start a new run, give --data FILE",
                               o->out);
    if (o->data.count == 0 && args->files.count == 0)
        return cli_usage_error("train",
                               o->resume ? "%s/train.json does not name the training data; give --data FILE"
                                         : "%s: no training data; give --data FILE",
                               o->out);
    if (o->steps && o->minutes > 0) return cli_usage_error("train", "give --steps or --minutes, not both");
    if (o->clip == 0)
        return cli_usage_error("train", "--clip: expected a norm above 0, or -1 to turn clipping off, found 0");
    if (o->tokenizer && CLI_GIVEN(o, vocab)) return cli_usage_error("train", "give --tokenizer or --vocab, not both");
    int status = cli_train_check_kind(args);
    if (status == CLI_DONE) status = cli_train_check_lora(o);
    return status == CLI_DONE ? check_outputs(args) : status;
}
