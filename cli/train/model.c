/* Text models for `bochner train`: the tokenizer, the model of --init, and the descriptor of a new model. */
#include "../common/spool.h"
#include "../models/text_tasks.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- tokenizer and text ------------------------------------------------------------------------------------------ */

static const char **data_paths(const cli_train_job *job, size_t *count)
{
    const cli_list *data = &job->options->data;
    const cli_arguments *more = &job->words->files;
    const char **paths = cli_allocate(data->count + more->count, sizeof *paths, "file names");
    *count = 0;
    for (size_t i = 0; i < data->count; i++) paths[(*count)++] = data->items[i];
    for (size_t i = 0; i < more->count; i++) paths[(*count)++] = more->items[i];
    return paths;
}

/* The tokenizer is trained on the data if --vocab is above 256. A resumed run loads the tokenizer of its folder, or of the
 * base of its adapters: their folder does not have the file of special tokens. */
static bool open_tokenizer(cli_train_job *job, const char *const *paths, size_t count)
{
    const cli_train_options *o = job->options;
    bo_context *context = job->session->context;
    char base[CLI_TRAIN_FILES];
    if (job->resumed && o->lora.rank && o->init)
        return cli_train_ok(job, bo_tokenizer_load(context, cli_train_base(job, base), &job->tokenizer));
    if (job->resumed) return cli_train_ok(job, bo_tokenizer_load(context, o->out, &job->tokenizer));
    if (o->tokenizer) return cli_train_ok(job, bo_tokenizer_load(context, o->tokenizer, &job->tokenizer));
    if (o->init && !cli_is_no_network(job->session, o->init)) return false;
    if (o->init) {
        const bo_status status = bo_tokenizer_load(context, o->init, &job->tokenizer);
        if (status != BO_OK) cli_fail_model(job->session, o->init, status);
        return status == BO_OK;
    }
    if (o->vocab <= 256) return cli_train_ok(job, bo_tokenizer_create(context, &job->tokenizer));
    const bo_tokenizer_desc desc = {.vocab = o->vocab};
    return job->kind->learn_tokenizer(job, paths, count, &desc);
}

/* Models of other tasks have one attention in all layers. */
static bool fits_layers(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    if (job->kind == &cli_train_language || !bo_model_describe(job->init)->kept_layers) return true;
    if (CLI_GIVEN(&o->attention, kind) || cli_train_other_mixer(o)) return true;
    cli_fail(job->session,
             "--init: the layers of %s have two kinds of attention, which is possible for language models only; give "
             "--attention KIND for all layers",
             o->init);
    return false;
}

/* A resumed run loads its weights from its checkpoint: the folder of --init need not exist any more. */
static bool open_init(cli_train_job *job)
{
    const char *from = job->resumed ? job->options->out : job->options->init;
    if (!job->options->init) return true;
    return cli_train_ok(job, bo_model_load(job->session->context, from, &job->init)) &&
           job->kind->accepts(job, job->init) && fits_layers(job);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

bool cli_train_other_mixer(const cli_train_options *o)
{
    return o->mixer != BO_MIXER_ATTENTION;
}

cli_attention_options cli_train_attention(const cli_train_options *o, const cli_train_kind *kind)
{
    cli_attention_options attention = o->attention;
    if (CLI_GIVEN(&attention, kind)) return attention;
    CLI_SET_GIVEN(&attention, kind, true);
    while (strcmp(cli_attention_kind_choice(attention.kind), kind->attention(o)) != 0) attention.kind++;
    return attention;
}

static void set(size_t *field, size_t given)
{
    if (given) *field = given;
}

static void set_sizes(const cli_train_options *o, bo_model_desc *d)
{
    const bool shaped = o->width || o->heads;
    set(&d->layers, o->layers);
    set(&d->width, o->width);
    set(&d->heads, o->heads);
    set(&d->context, o->context);
    if (shaped) d->key_heads = d->head_dim = d->hidden = 0;
    set(&d->key_heads, o->key_heads);
    set(&d->hidden, o->hidden);
}

/* A mixer given by --mixer or --attention replaces that of --init. */
static void set_mixer(const cli_train_options *o, bo_model_desc *d)
{
    const bool named = CLI_GIVEN(o, mixer) || CLI_GIVEN(&o->attention, kind);
    if (named && o->mixer != d->mixer) {
        const bo_model_desc none = {0};
        d->mixer = o->mixer;
        d->attention = none.attention;
        d->positions = none.positions;
        d->query_norm = d->output_norm = BO_CHOICE_AUTO;
        d->state_size = d->state_rank = d->kernel = 0;
    }
    if (CLI_GIVEN(o, ssm)) d->ssm = o->ssm;
    set(&d->state_size, o->state_size);
    set(&d->state_rank, o->state_rank);
    set(&d->kernel, o->kernel);
}

/* The feature maps of --init stay if no option changes them. */
static void set_mlp(const cli_train_options *o, bo_model_desc *d)
{
    bo_features_desc *f = &d->mlp_features;
    const bool other = CLI_GIVEN(o, mlp) && o->mlp != d->mlp;
    if (other) {
        d->mlp = o->mlp;
        d->hidden = o->hidden;
        d->degree_heads = 0;
    }
    if (other || o->width || CLI_GIVEN(o, mlp_kernel) || CLI_GIVEN(o, mlp_function)) {
        f->dim = 0;
        f->gamma = 0;
    }
    f->features = 0;
    if (CLI_GIVEN(o, mlp_kernel)) f->kernel = o->mlp_kernel, f->function = BO_FUNCTION_DEFAULT;
    if (CLI_GIVEN(o, mlp_function)) f->function = o->mlp_function;
    if (CLI_GIVEN(o, mlp_draw)) f->draw = o->mlp_draw;
    set(&d->degree_heads, o->degree_heads);
}

static void set_choices(const cli_train_options *o, bo_model_desc *d)
{
    set_mlp(o, d);
    if (CLI_GIVEN(o, norm)) d->norm = o->norm;
    if (CLI_GIVEN(o, positions)) d->positions = o->positions;
    if (CLI_GIVEN(o, query_norm)) d->query_norm = o->query_norm;
    if (CLI_GIVEN(o, output_norm)) d->output_norm = o->output_norm;
    d->untied |= o->untied;
    d->bias |= o->bias;
    if (o->bias) d->attention_bias = d->output_bias = d->mlp_bias = BO_CHOICE_AUTO;
    if (o->mup) d->parametrization = BO_PARAMETRIZATION_MUP;
    if (o->unit_mup) d->parametrization = BO_PARAMETRIZATION_UNIT;
    set(&d->base_width, o->base_width);
    if (o->float8) d->storage = BO_STORAGE_FLOAT8;
    if (CLI_GIVEN(o, dropout)) d->dropout = o->dropout;
    if (o->rope_base > 0) d->rope_base = o->rope_base;
}

/* The seed of the frequencies stays 0 here: the model derives it from its own. */
void cli_train_set_attention(const cli_train_job *job, bo_model_desc *d)
{
    const cli_train_options *o = job->options;
    const cli_attention_options attention = cli_train_attention(o, job->kind);
    d->attention = cli_attention_numbered(&attention, 0);
    if (CLI_GIVEN(o, gate)) d->attention.gate = o->gate;
    if (attention.whiten && !d->attention.rank) /* hybrid has an M only with a rank */
        d->attention.rank = d->head_dim ? d->head_dim : d->width / (d->heads ? d->heads : 1);
    d->sigma = o->sigma;
    d->gate_first = o->gate_first;
    d->gate_last = o->gate_last;
}

/* --attention names the attention of all layers, also of those that kept another one in --init. Models of other tasks do not
 * record the attention that they were linearized from. */
static void set_attention(const cli_train_job *job, bo_model_desc *d)
{
    const bool named = CLI_GIVEN(&job->options->attention, kind);
    if (named || d->mixer != BO_MIXER_ATTENTION || job->kind != &cli_train_language) {
        d->kept_attention = (bo_attention_desc){0};
        d->kept_layers = NULL;
    }
    if (d->mixer != BO_MIXER_ATTENTION) return;
    if (job->init && bo_model_describe(job->init)->mixer == d->mixer && !named) return;
    cli_train_set_attention(job, d);
}

static bool same_tokenizer(const cli_train_job *job)
{
    const bo_tokenizer *theirs = bo_model_tokenizer(job->init);
    return !theirs || bo_tokenizer_fingerprint(theirs) == bo_tokenizer_fingerprint(job->tokenizer);
}

bo_model_desc cli_train_describe_model(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    bo_model_desc desc = {0};
    if (job->init)
        desc = *bo_model_describe(job->init);
    else
        bo_model_preset(CLI_GIVEN(o, preset) ? bo_model_preset_name(o->preset) : "tiny", &desc);
    const size_t vocab = bo_tokenizer_vocab(job->tokenizer);
    if (!job->init || vocab > desc.vocab || !same_tokenizer(job)) desc.vocab = vocab;
    set_sizes(o, &desc);
    set_mixer(o, &desc);
    set_choices(o, &desc);
    set_attention(job, &desc);
    desc.seed = job->session->common.seed;
    if (job->kind->describe_model) job->kind->describe_model(job, &desc);
    return desc;
}

/* Checks before any allocation whether weights, gradients and two moments exceed the memory limit of the process. */
static bool too_large(cli_train_job *job, const bo_model_desc *d)
{
    const double width = (double)d->width, hidden = d->hidden ? (double)d->hidden : 4 * width;
    const double numbers = (double)d->layers * width * (4 * width + 2 * hidden) + (double)d->vocab * width;
    bo_memory_bound limit;
    bo_context_memory(job->session->context, &limit);
    if (4 * sizeof(float) * numbers <= (double)limit.bytes) return false;
    cli_fail(job->session,
             "training %s parameters needs %s of memory, but the limit is %s (%s); choose a smaller model",
             cli_count((size_t)numbers).s, cli_bytes(4 * sizeof(float) * numbers).s, cli_bytes((double)limit.bytes).s,
             limit.source);
    return true;
}

static bool open_model(cli_train_job *job)
{
    bo_context *context = job->session->context;
    const char *from = job->options->init;
    size_t taken = 0;
    const bo_model_desc desc = cli_train_describe_model(job);
    if (too_large(job, &desc)) return false;
    if (!cli_train_ok(job, bo_model_create(context, &desc, job->tokenizer, &job->model))) return false;
    if (!job->init || job->resumed) return true;
    if (!cli_train_ok(job, bo_model_adopt(context, job->model, job->init, &taken))) return false;
    cli_say(job->session, "Weights     %s of %s tensors loaded from %s", cli_count(taken).s,
            cli_count(bo_model_weights(job->model)).s, from);
    if (taken) return true;
    cli_fail(job->session,
             "%s: no tensor has the shape that this model needs; give the same --width, or leave out --init", from);
    return false;
}

const cli_train_weights cli_train_new_model = {
    .file = "model.safetensors", .open_init = open_init, .open_model = open_model};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Whether files are read more than once: for training, for validation on their end, or to train a tokenizer. */
static bool reads_twice(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    const bool learns = !job->resumed && !o->tokenizer && !o->init && o->vocab > 256;
    return learns || (!o->valid && o->valid_fraction > 0) || job->kind->reads_twice;
}

bool cli_train_open_text(cli_train_job *job)
{
    size_t count;
    const char **paths = data_paths(job, &count);
    cli_spools spools = {.count = 0};
    const bool opened = (!reads_twice(job) || cli_spool_all(job->session, &spools, paths, count) == CLI_DONE) &&
                        open_tokenizer(job, paths, count) && job->weights->open_init(job) &&
                        job->kind->open_files(job, paths, count);
    cli_spools_close(&spools); /* a corpus, or texts, keep the data that they need */
    free(paths);
    return opened;
}

bool cli_train_open_model(cli_train_job *job)
{
    return cli_train_open_text(job) && job->weights->open_model(job);
}
