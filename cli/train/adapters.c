/* bochner train --lora: trains adapters of a model and leaves the model's weights fixed. */
#include "train.h"
#include "../model/blocks.h"
#include <string.h>

const cli_option cli_train_lora_rows[] = {
    SECTION("Adapters"),
    COUNT(
        "lora", "RANK", cli_train_lora_options, rank,
        "rank of the adapters. With --lora, only adapters of the linear layers are trained; the weights of --init stay "
        "fixed. With --attention, softmax attention of a language model is replaced, and the parameters of the new "
        "attention are trained in full",
        .low = 1, .high = 1 << 16),
    REAL("lora-alpha", "A", cli_train_lora_options, alpha,
         "scale of the adapters: their output is multiplied by A / RANK", .low = 1e-6, .high = 1e6,
         .default_text = "twice the rank"),
    TEXT("lora-targets", "NAMES", cli_train_lora_options, targets,
         "layers with adapters: endings of layer names (q_proj,v_proj), patterns with *, or blocks of the model "
         "(block-1, block-1.q_proj; see bochner info), separated by commas",
         .default_text = "all hidden layers"),
    CHOICE("lora-init", "KIND", cli_train_lora_options, init, BO_ENUM_LORA_INIT,
           "initial values of the adapters; weight and gradient: leading singular vectors of the weights or of their "
           "gradients",
           .initial = "zero"),
    END_OF_OPTIONS,
};

bool cli_train_replaces(const cli_train_options *o)
{
    return o->lora.rank && CLI_GIVEN(&o->attention, kind);
}

/* Adapters are stored without frequencies, so the frequencies of the base must not change. */
static int check_replacement(const cli_train_options *o)
{
    const cli_attention_options attention = cli_train_attention(o, &cli_train_language);
    const bo_attention_desc d = cli_attention_chosen(&attention);
    if (cli_train_kind_of(o) != &cli_train_language)
        return cli_usage_error("train",
                               "--lora with --attention needs a language model; leave out --attention or --task");
    if (CLI_GIVEN(o, calibrate_every) || CLI_GIVEN(o, redraw))
        return cli_usage_error("train", "--lora does not change random frequencies; leave out --%s",
                               CLI_GIVEN(o, redraw) ? "redraw" : "calibrate-every");
    if (d.proposal == BO_PROPOSAL_NONE && d.features.sampling != BO_SAMPLING_OPTIMAL) return CLI_DONE;
    return cli_usage_error(
        "train",
        "--lora does not store frequencies that are drawn from data (%s); choose another --attention, "
        "or leave out --lora",
        d.proposal != BO_PROPOSAL_NONE ? bo_enum_name(BO_ENUM_PROPOSAL, d.proposal) : "sampling optimal");
}

/* With adapters, model and tokenizer come from --init, and --context is the sequence length. */
int cli_train_check_lora(const cli_train_options *o)
{
    static const char *const rank[] = {"lora", NULL}, *const shared[] = {"init", "freeze", "context", NULL};
    const cli_option *part = cli_train_given(cli_train_lora_rows, &o->lora, rank);
    if (!o->lora.rank) return part ? cli_usage_error("train", "--%s needs --lora RANK", part->name) : CLI_DONE;
    if (!o->init && !o->resume) return cli_usage_error("train", "--lora needs a model: give --init DIR");
    if (o->tokenizer || CLI_GIVEN(o, vocab))
        return cli_usage_error("train", "--lora uses the tokenizer of --init; leave out --%s",
                               o->tokenizer ? "tokenizer" : "vocab");
    const cli_option *found = cli_train_given(cli_train_shape_rows, o, shared);
    if (!found && cli_train_replaces(o)) return check_replacement(o);
    if (!found) found = cli_train_attention_given(o, shared);
    if (!found) return CLI_DONE;
    return cli_usage_error("train", "--lora does not change the model of --init; leave out --%s", found->name);
}

/* Training memory grows with the sequence length, and a text must be longer than a sequence. */
size_t cli_train_window(const cli_train_job *job)
{
    enum { DEFAULT_MAX_CONTEXT = 1024 };
    if (!job->options->lora.rank) return 0;
    const size_t context = bo_model_describe(job->model)->context;
    return job->options->context           ? job->options->context
           : context < DEFAULT_MAX_CONTEXT ? context
                                           : DEFAULT_MAX_CONTEXT;
}

static bool fits_context(const cli_train_job *job)
{
    const size_t requested = job->options->context, limit = bo_model_describe(job->model)->context;
    if (requested <= limit) return true;
    cli_fail(job->session, "--context: with --lora, expected at most %zu, the context of %s, found %zu", limit,
             job->options->init, requested);
    return false;
}

/* ---- another attention ------------------------------------------------------------------------------------------- */

/* The model of --init with the new attention is not stored anywhere yet, so it is written to the directory of the
 * run. */
const char *cli_train_base(const cli_train_job *job, char out[CLI_TRAIN_FILES])
{
    const cli_train_options *o = job->options;
    snprintf(out, CLI_TRAIN_FILES, cli_train_replaces(o) ? "%s/base" : "%s", cli_train_replaces(o) ? o->out : o->init);
    return out;
}

static const bo_block *first_softmax(const bo_model_desc *d)
{
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++)
        if (cli_is_softmax(&list.blocks[i])) return &list.blocks[i];
    return list.blocks;
}

static bool same_scale(const bo_model_desc *d, double scale)
{
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++)
        if (cli_is_softmax(&list.blocks[i]) && list.blocks[i].attention.scale != scale) return false;
    return true;
}

static bo_status replace(const cli_train_job *job, bo_model **out)
{
    const bo_model_desc *d = bo_model_describe(job->init);
    bo_block b = *first_softmax(d);
    /* The scale of the replaced attention, unless --scale is given. If layers differ, each layer keeps its scale. */
    const double scale = same_scale(d, b.attention.scale) ? b.attention.scale : 0;
    cli_train_set_attention(job, d, &b);
    if (b.attention.scale == 0 && bo_attention_has(&b.attention, BO_TRAIT_SCALE)) b.attention.scale = scale;
    const bo_replacement_desc desc = {.attention = b.attention,
                                      .kept_layers = "",
                                      .sigma = b.sigma,
                                      .gate_first = b.gate_first,
                                      .gate_last = b.gate_last,
                                      .seed = job->session->common.seed};
    return bo_model_replace_attention(job->session->context, job->init, &desc, out);
}

/* For a resumed run: the model of the options with the weights of the base, so that the trainer can compare the options
 * with the original options. */
static bo_status describe_again(const cli_train_job *job, bo_model **out)
{
    bo_context *context = job->session->context;
    bo_model_desc d;
    bo_status status = bo_model_desc_copy(context, bo_model_describe(job->init), &d);
    if (status != BO_OK) return status;
    const cli_blocks list = cli_blocks_of(&d);
    for (size_t i = 0; i < list.count; i++) {
        bo_block *b = &cli_mutable_blocks(list)[i];
        const double scale = b->attention.scale;
        if (!b->replaced.heads) continue;
        cli_train_set_attention(job, &d, b);
        if (b->attention.scale == 0 && bo_attention_has(&b->attention, BO_TRAIT_SCALE)) b->attention.scale = scale;
    }
    d.seed = job->session->common.seed;
    status = bo_model_create(context, &d, job->tokenizer, out);
    bo_model_desc_release(&d);
    return status == BO_OK ? bo_model_adopt(context, *out, job->init, NULL) : status;
}

/* A model with a state of fixed size gets another attention only by full training, without adapters: its weights were
 * trained for features and do not fit the new attention. */
static bool has_softmax(const cli_train_job *job)
{
    const bo_model_desc *d = bo_model_describe(job->init);
    const bo_block *other = NULL;
    bool linearized = false;
    for (size_t i = 0; i < d->layers; i++) {
        const bo_block *b = bo_model_block(d, i);
        linearized |= b->replaced.heads > 0;
        if (b->replaced.heads > 0 && !other) other = b;
        if (b->mixer != BO_MIXER_ATTENTION || b->attention.kind != BO_ATTENTION_SOFTMAX) other = b;
    }
    if (!linearized && !other) return true;
    const bool attends = other->mixer == BO_MIXER_ATTENTION;
    cli_fail(
        job->session,
        "--lora replaces softmax attention only, but the layers of %s have %s%s; leave out --attention, or leave out "
        "--lora to train all weights",
        job->options->init, attends ? bo_attention_name(&other->attention) : bo_enum_name(BO_ENUM_MIXER, other->mixer),
        linearized ? " attention already (it is linearized)"
        : attends  ? " attention"
                   : " and no attention");
    return false;
}

static bool open_replaced(cli_train_job *job)
{
    char base[CLI_TRAIN_FILES];
    const char *from = job->resumed ? cli_train_base(job, base) : job->options->init;
    if (!cli_train_ok(job, bo_model_load(job->session->context, &(bo_source){.path = from}, NULL, &job->init)))
        return false;
    if (!job->kind->accepts(job, job->init) || (!job->resumed && !has_softmax(job))) return false;
    const bo_status status = (job->resumed ? describe_again : replace)(job, &job->model);
    return cli_train_ok(job, status) && fits_context(job);
}

/* Called before the first step, after the trainer has locked the directory. */
static bool write_files(cli_train_job *job)
{
    char base[CLI_TRAIN_FILES];
    bo_model *model = NULL;
    bo_status status = BO_OK;
    if (!cli_train_replaces(job->options) || job->session->ranks.rank != 0) return true;
    cli_train_base(job, base);
    job->session->terse = true;                       /* the list of new weights was printed before */
    if (!job->resumed) status = replace(job, &model); /* not job->model, which already has adapters */
    if (status == BO_OK && model) status = bo_model_save(job->session->context, model, &(bo_sink){.path = base});
    bo_model_destroy(model);
    job->session->terse = false;
    if (status == BO_OK) status = bo_model_set_base(job->session->context, job->model, base);
    return cli_train_ok(job, status);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* Adds adapters to the model of --init, also for a resumed run. */
static bool open_init(cli_train_job *job)
{
    if (!job->options->init) return true;
    if (cli_train_replaces(job->options)) return open_replaced(job);
    return cli_train_ok(job, bo_model_load(job->session->context, &(bo_source){.path = job->options->init}, NULL,
                                           &job->model)) &&
           job->kind->accepts(job, job->model) && fits_context(job);
}

static bo_status adapt(cli_train_job *job)
{
    const cli_train_lora_options *o = &job->options->lora;
    const bool replaces = cli_train_replaces(job->options);
    char *new_parameters = NULL;
    const bo_status listed =
        replaces ? bo_model_new_parameters(job->session->context, job->model, &new_parameters) : BO_OK;
    if (listed != BO_OK) return listed;
    const bo_lora_desc desc = {.rank = o->rank,
                               .alpha = o->alpha,
                               .targets = o->targets,
                               .whole = new_parameters,
                               .init = o->init,
                               .data = job->train,
                               .seed = job->session->common.seed,
                               .base = replaces ? NULL : job->options->init,
                               .window = cli_train_window(job)};
    const bo_status status = bo_model_adapt(job->session->context, job->model, &desc);
    bo_free(new_parameters);
    return status;
}

/* Adapters do not change the task of a model: the base has no weights for another head. */
static bool fits_task(cli_train_job *job)
{
    const bo_model_task requested = job->options->texts.task, found = bo_model_describe(job->model)->task;
    if (requested == found) return true;
    cli_fail(job->session,
             "--lora: the task of %s is %s, expected %s; adapters do not change the task. Make a model of that task "
             "first: bochner train --task %s --init %s%s --out DIR",
             job->options->init, bo_enum_name(BO_ENUM_MODEL_TASK, found), bo_enum_name(BO_ENUM_MODEL_TASK, requested),
             bo_enum_name(BO_ENUM_MODEL_TASK, requested), job->options->init,
             requested == BO_MODEL_TASK_CLASSIFY || requested == BO_MODEL_TASK_MATCH ? " --freeze model" : "");
    return false;
}

/* A resumed run reads its adapters from its checkpoint. The trainer refuses adapters of another shape. */
static bool open_model(cli_train_job *job)
{
    return fits_task(job) && cli_train_ok(job, adapt(job));
}

const cli_train_weights cli_train_adapters = {
    .file = "adapter_model.safetensors", .open_init = open_init, .open_model = open_model, .write_files = write_files};
