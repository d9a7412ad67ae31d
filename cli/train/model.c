/* The text, the tokenizer and the model of `bochner train`. */
#include "../common/spool.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEST = 32768, TEXTS_TEST = 500000 }; /* tokens of a test unless the line says */

static bool ok(cli_train_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* ---- tokenizer and text ---------------------------------------------------------------------------------------------------- */

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

/* Learned from the data where --vocab asks for more than bytes; a resumed run has its own. */
static bool open_tokenizer(cli_train_job *job, const char *const *paths, size_t count)
{
    const cli_train_options *o = job->options;
    bo_context *context = job->session->context;
    if (job->resumed) return ok(job, bo_tokenizer_load(context, o->out, &job->tokenizer));
    if (o->tokenizer) return ok(job, bo_tokenizer_load(context, o->tokenizer, &job->tokenizer));
    if (o->init && !cli_is_no_network(job->session, o->init)) return false;
    if (o->init) return ok(job, bo_tokenizer_load(context, o->init, &job->tokenizer));
    if (o->vocab <= 256) return ok(job, bo_tokenizer_bytes(context, &job->tokenizer));
    const bo_tokenizer_desc desc = {.vocab = o->vocab};
    if (o->texts.task) return cli_train_texts_tokenizer(job, paths, count, &desc);
    return ok(job, bo_tokenizer_train(context, &desc, paths, count, &job->tokenizer));
}

/* A resumed run takes its weights from its checkpoint: what it began with need not exist any more. Adapters go into the model
 * itself, also then. */
static bool open_init(cli_train_job *job)
{
    const bool adapts = job->options->lora.rank > 0;
    const char *from = job->resumed && !adapts ? job->options->out : job->options->init;
    if (!job->options->init) return true;
    return ok(job, bo_model_load(job->session->context, from, adapts ? &job->model : &job->init)) &&
           cli_train_texts_task(job);
}

static bool open_corpora(cli_train_job *job, const char *const *paths, size_t count)
{
    const cli_train_options *o = job->options;
    bo_context *context = job->session->context;
    const bool cut = !o->valid && o->valid_fraction > 0;
    bo_corpus_desc desc = {.paths = paths,
                           .path_count = count,
                           .tokenizer = job->tokenizer,
                           .field = o->field,
                           .separator = o->separator,
                           .take = cut ? 1 - o->valid_fraction : 0};
    if (!ok(job, bo_corpus_open(context, &desc, &job->train))) return false;
    if (cut) {
        desc.skip = desc.take;
        desc.take = 0;
    } else if (o->valid) {
        desc.paths = &o->valid;
        desc.path_count = 1;
    } else {
        return true;
    }
    return ok(job, bo_corpus_open(context, &desc, &job->valid));
}

/* ---- the model --------------------------------------------------------------------------------------------------------------- */

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

/* The one that is named, be it by its attention, in place of that of the model to begin with. */
static void set_mixer(const cli_train_options *o, bo_model_desc *d)
{
    const int named = o->mixer < 0 && o->attention.kind >= 0 ? BO_MIXER_ATTENTION : o->mixer;
    if (named >= 0 && (bo_mixer)named != d->mixer) {
        const bo_model_desc none = {0};
        d->mixer = (bo_mixer)named;
        d->attention = none.attention;
        d->positions = none.positions;
        d->query_norm = d->output_norm = BO_CHOICE_AUTO;
        d->state_size = d->state_rank = d->kernel = 0;
    }
    if (o->ssm >= 0) d->ssm = (bo_ssm)o->ssm;
    set(&d->state_size, o->state_size);
    set(&d->state_rank, o->state_rank);
    set(&d->kernel, o->kernel);
}

/* Maps of the model to begin with stay where nothing else is said. */
static void set_mlp(const cli_train_options *o, bo_model_desc *d)
{
    bo_features_desc *f = &d->mlp_features;
    const bool other = o->mlp >= 0 && (bo_mlp)o->mlp != d->mlp;
    if (other) {
        d->mlp = (bo_mlp)o->mlp;
        d->hidden = o->hidden;
        d->degree_heads = 0;
    }
    if (other || o->width || o->mlp_kernel >= 0 || o->mlp_function >= 0) {
        f->dim = 0;
        f->gamma = 0;
    }
    f->features = 0;
    if (o->mlp_kernel >= 0) f->kernel = (bo_kernel)o->mlp_kernel, f->function = BO_FUNCTION_DEFAULT;
    if (o->mlp_function >= 0) f->function = (bo_function)o->mlp_function;
    if (o->mlp_draw >= 0) f->draw = (bo_draw)o->mlp_draw;
    set(&d->degree_heads, o->degree_heads);
}

static void set_choices(const cli_train_options *o, bo_model_desc *d)
{
    set_mlp(o, d);
    if (o->norm >= 0) d->norm = (bo_norm)o->norm;
    if (o->positions >= 0) d->positions = (bo_positions)o->positions;
    if (o->query_norm >= 0) d->query_norm = (bo_choice)o->query_norm;
    if (o->output_norm >= 0) d->output_norm = (bo_choice)o->output_norm;
    d->untied |= o->untied;
    d->bias |= o->bias;
    if (o->mup) d->parametrization = BO_PARAMETRIZATION_MUP;
    if (o->unit_mup) d->parametrization = BO_PARAMETRIZATION_UNIT;
    set(&d->base_width, o->base_width);
    if (o->float8) d->storage = BO_STORAGE_FLOAT8;
    if (!isnan(o->dropout)) d->dropout = o->dropout;
    if (o->rope_base > 0) d->rope_base = o->rope_base;
}

/* Frequencies are the model's to seed. */
static void set_attention(const cli_train_options *o, const bo_model *init, bo_model_desc *d)
{
    const cli_attention_options attention = cli_train_attention(o);
    if (d->mixer != BO_MIXER_ATTENTION) return;
    if (init && bo_model_describe(init)->mixer == d->mixer && o->attention.kind < 0) return;
    d->attention = cli_attention_numbered(&attention, 0);
    if (o->gate >= 0) d->attention.gate = (bo_gate)o->gate;
    d->sigma = o->sigma;
    d->gate_first = o->gate_first;
    d->gate_last = o->gate_last;
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
        bo_model_preset(o->preset < 0 ? "tiny" : bo_model_preset_name((size_t)o->preset), &desc);
    const size_t vocab = bo_tokenizer_vocab(job->tokenizer);
    if (!job->init || vocab > desc.vocab || !same_tokenizer(job)) desc.vocab = vocab;
    set_sizes(o, &desc);
    set_mixer(o, &desc);
    set_choices(o, &desc);
    set_attention(o, job->init, &desc);
    desc.seed = job->session->common.seed;
    cli_train_texts_describe(job, &desc);
    return desc;
}

/* Weights, gradients and two moments are more than the machine has: seen before any of them is made. */
static bool too_large(cli_train_job *job, const bo_model_desc *d)
{
    const double width = (double)d->width, hidden = d->hidden ? (double)d->hidden : 4 * width;
    const double numbers = (double)d->layers * width * (4 * width + 2 * hidden) + (double)d->vocab * width;
    const double machine = (double)bo_physical_memory();
    if (!(machine > 0) || 4 * sizeof(float) * numbers <= machine) return false;
    cli_fail(job->session, "%s parameters need %s of memory to be trained and this machine has %s",
             cli_count((size_t)numbers).s, cli_bytes(4 * sizeof(float) * numbers).s, cli_bytes(machine).s);
    return true;
}

static bool open_model(cli_train_job *job)
{
    bo_context *context = job->session->context;
    if (job->options->lora.rank) return cli_train_lora_open(job);
    const char *from = job->options->init;
    size_t taken = 0;
    const bo_model_desc desc = cli_train_describe_model(job);
    if (too_large(job, &desc)) return false;
    if (!ok(job, bo_model_create(context, &desc, job->tokenizer, &job->model))) return false;
    if (!job->init || job->resumed) return true;
    if (!ok(job, bo_model_adopt(context, job->model, job->init, &taken))) return false;
    cli_say(job->session, "Weights     %s of %s tensors are those of %s", cli_count(taken).s,
            cli_count(bo_model_weights(job->model)).s, from);
    if (taken) return true;
    cli_fail(job->session, "%s: no weight fits this model; give the same --width, or leave out --init", from);
    return false;
}

/* ---- the run ------------------------------------------------------------------------------------------------------------------ */

static bo_optimizer_desc optimizer(const cli_train_options *o)
{
    return (bo_optimizer_desc){.kind = (bo_optimizer_kind)o->optim,
                               .rate = o->lr,
                               .other_rate = o->other_lr,
                               .decay = o->decay,
                               .momentum = o->momentum,
                               .factor = (bo_muon_factor)o->muon_factor,
                               .iteration = (bo_muon_iteration)o->muon_iteration,
                               .clip = o->clip,
                               .average = o->average};
}

void cli_train_describe_run(cli_train_job *job)
{
    const cli_train_options *o = job->options;
    const bool length = o->steps || o->minutes > 0 || job->resumed;
    job->ranks = cli_ranks_collective(&job->session->ranks);
    job->desc = (bo_trainer_desc){
        .model = job->model,
        .train = job->train,
        .valid = job->valid,
        .folder = o->out,
        .resume = o->resume,
        .optimizer = optimizer(o),
        .schedule = {.kind = (bo_schedule_kind)o->schedule,
                     .warmup = o->warmup == CLI_NOT_GIVEN ? 0
                               : o->warmup                ? o->warmup
                                                          : UINT64_MAX,
                     .floor = o->floor},
        .batch = o->batch,
        .micro_batch = o->micro_batch,
        .steps = o->steps,
        .minutes = length ? o->minutes : 5,
        .eval_every = o->eval_every,
        .eval_tokens = o->eval_tokens != CLI_NOT_GIVEN ? o->eval_tokens
                       : o->texts.task                 ? TEXTS_TEST
                                                       : TEST,
        .checkpoint_every = o->checkpoint_every,
        .keep = o->keep,
        .patience = o->patience,
        .checkpointing = o->checkpointing,
        .activations = (bo_storage)o->activations,
        .documents = o->documents,
        .freeze = o->freeze,
        .seed = job->session->common.seed,
        .calibrate_every = o->calibrate_every,
        .ranks = job->ranks.size > 1 ? &job->ranks : NULL,
        .report = cli_train_progress,
        .user = job,
    };
}

/* The text is read for what is learned from it, for its end to test with, and for a tokenizer. */
static bool reads_twice(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    const bool learns = !job->resumed && !o->tokenizer && !o->init && o->vocab > 256;
    return learns || (!o->valid && o->valid_fraction > 0) || o->texts.task;
}

bool cli_train_open_text(cli_train_job *job)
{
    size_t count;
    const char **paths = data_paths(job, &count);
    cli_spools spools = {.count = 0};
    const bool opened = (!reads_twice(job) || cli_spool_all(job->session, &spools, paths, count)) &&
                        open_tokenizer(job, paths, count) && open_init(job) &&
                        (job->options->texts.task ? cli_train_texts_open : open_corpora)(job, paths, count);
    cli_spools_close(&spools); /* a corpus, or texts, hold what they need of them */
    free(paths);
    return opened;
}

bool cli_train_open(cli_train_job *job)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", job->options->out,
             job->options->lora.rank ? "adapter_model.safetensors" : "model.safetensors");
    job->resumed = job->options->resume && access(path, F_OK) == 0;
    if (job->options->network.model) return cli_train_network_open(job);
    if (!cli_train_open_text(job) || !open_model(job)) return false;
    cli_train_describe_run(job);
    if (job->options->texts.task) cli_train_texts_run(job);
    return true;
}

void cli_train_close(cli_train_job *job)
{
    bo_trainer_destroy(job->trainer);
    bo_model_destroy(job->model);
    bo_model_destroy(job->init);
    bo_network_destroy(job->network);
    if (job->held_out != job->examples) bo_examples_destroy(job->held_out);
    bo_examples_destroy(job->examples);
    bo_texts_close(job->held_out_texts);
    bo_texts_close(job->texts);
    bo_corpus_close(job->valid);
    bo_corpus_close(job->train);
    bo_tokenizer_destroy(job->tokenizer);
}
