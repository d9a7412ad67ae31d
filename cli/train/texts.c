/* Options, texts and model of `bochner train --task classify`, match and translate. */
#include "../common/rows.h"
#include "../models/text_tasks.h"
#include "train.h"
#include <math.h>
#include <string.h>

/* Tokens of a text at most where neither the line nor a model says: of labeled ones, which are cut, and of translations, which
 * have all the room they need. */
enum { LABELED_CONTEXT = 2048, TRANSLATED_CONTEXT = 256 };
static const double TRANSLATED_SMOOTHING = 0.1;

/* ---- options ----------------------------------------------------------------------------------------------------------------- */

static const char *task_choice(int index)
{
    return bo_model_task_name((bo_model_task)index);
}

static const char *pooling_choice(int index)
{
    return bo_pooling_name((bo_pooling)index);
}

static const char *cross_choice(int index)
{
    return bo_cross_name((bo_cross)index);
}

size_t cli_train_texts_table(cli_train_texts *o, cli_option out[CLI_TRAIN_TEXTS])
{
    const cli_option options[] = {
        SECTION("Labels and translations"),
        CHOICE("task", "NAME",
               "what is learned. classify: lines of label, tab, text; match: label, tab, text, tab, text; translate: "
               "source, tab, target",
               &o->task, task_choice),
        COUNT("pack", "N", "tokens that whole examples are packed into; --batch counts packs; 2048 unless given",
              &o->pack, 1, 1 << 30),
        CHOICE("pooling", "HOW", "classify, match: how tokens become one vector; mean unless given", &o->pooling,
               pooling_choice),
        FLAG("forward", "classify, match: read forwards only, so that a text of any length streams through a state",
             &o->forward),
        COUNT("encoder-layers", "N", "translate: of the encoder; as --layers unless given", &o->encoder_layers, 1,
              1 << 12),
        CHOICE("cross", "HOW", "translate: what the decoder sees of the source; attention unless given", &o->cross,
               cross_choice),
        CHOICE("cross-attention", "KIND", "translate: of what kind that is; as --attention unless given",
               &o->cross_attention, cli_attention_kind_choice),
        REAL("smoothing", "E", "part of the probability that all labels share; translate: 0.1 unless given",
             &o->smoothing, 0, 0.9),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

int cli_train_texts_check(const cli_train_options *o)
{
    const cli_train_texts *t = &o->texts;
    const bool translates = t->task == BO_MODEL_TRANSLATE;
    const char *any = t->pack ? "pack" : !isnan(t->smoothing) ? "smoothing" : NULL;
    const char *label = t->pooling >= 0 ? "pooling" : t->forward ? "forward" : NULL;
    const char *translation = t->encoder_layers         ? "encoder-layers"
                              : t->cross >= 0           ? "cross"
                              : t->cross_attention >= 0 ? "cross-attention"
                                                        : NULL;
    const char *language = o->field ? "field" : o->separator ? "separator" : o->documents ? "documents" : NULL;
    if (any && !t->task)
        return cli_wrong_use("train", "--%s is an option of --task classify, match and translate", any);
    if (label && (!t->task || translates))
        return cli_wrong_use("train", "--%s is an option of --task classify and match", label);
    if (translation && !translates) return cli_wrong_use("train", "--%s is an option of --task translate", translation);
    if (language && t->task)
        return cli_wrong_use("train", "--%s is an option of language models, found --task %s", language,
                             task_choice(t->task));
    if (t->cross == BO_CROSS_SUMMARY && t->cross_attention >= 0)
        return cli_wrong_use("train", "--cross-attention has no meaning with --cross summary");
    if (t->task && t->forward && t->pooling == BO_POOLING_FIRST)
        return cli_wrong_use("train", "--pooling first: a first token has seen nothing of the rest with --forward");
    return CLI_DONE;
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------- */

static bool ok(cli_train_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* The model to begin with, or to put adapters into; NULL: none. */
static const bo_model *given_model(const cli_train_job *job)
{
    return job->init ? job->init : job->model;
}

bool cli_train_texts_task(const cli_train_job *job)
{
    const bo_model_task task = bo_model_describe(given_model(job))->task;
    if (job->options->texts.task || task == BO_MODEL_LANGUAGE) return true;
    cli_fail(job->session, "--init: %s holds %s; give --task %s", job->options->init, cli_task_words(task),
             bo_model_task_name(task));
    return false;
}

/* A model that has the same task has the classes too. */
static bool same_task(const cli_train_job *job)
{
    const bo_model *model = given_model(job);
    return model && bo_model_describe(model)->task == (bo_model_task)job->options->texts.task;
}

/* Those to learn from, as far as they are known without a tokenizer. */
static bo_texts_desc training_files(const cli_train_job *job, const char *const *paths, size_t count)
{
    static const bo_texts_kind kinds[BO_MODEL_TASK_COUNT] = {[BO_MODEL_CLASSIFY] = BO_TEXTS_LABELED,
                                                             [BO_MODEL_MATCH] = BO_TEXTS_LABELED_PAIR,
                                                             [BO_MODEL_TRANSLATE] = BO_TEXTS_PAIR};
    const cli_train_options *o = job->options;
    return (bo_texts_desc){.kind = kinds[o->texts.task],
                           .paths = paths,
                           .path_count = count,
                           .take = !o->valid && o->valid_fraction > 0 ? 1 - o->valid_fraction : 0,
                           .seed = job->session->common.seed};
}

bool cli_train_texts_tokenizer(cli_train_job *job, const char *const *paths, size_t count,
                               const bo_tokenizer_desc *desc)
{
    const bo_texts_desc files = training_files(job, paths, count);
    return ok(job, bo_tokenizer_train_texts(job->session->context, desc, &files, &job->tokenizer));
}

static bo_texts_desc training_texts(const cli_train_job *job, const char *const *paths, size_t count)
{
    const int task = job->options->texts.task;
    const int32_t end = bo_tokenizer_end(job->tokenizer);
    bo_texts_desc desc = training_files(job, paths, count), model;
    if (same_task(job)) {
        bo_model_texts(given_model(job), false, &model);
        desc.labels = model.labels;
        desc.classes = model.classes;
    }
    desc.tokenizer = job->tokenizer;
    if (task == BO_MODEL_TRANSLATE) desc.end = end >= 0 ? (size_t)end + 1 : bo_tokenizer_vocab(job->tokenizer) + 1;
    desc.cut = task != BO_MODEL_TRANSLATE;
    return desc;
}

/* The least power of two that is not less. */
static size_t power_of_two(size_t least)
{
    size_t power = 1;
    while (power < least) power *= 2;
    return power;
}

/* The context where nothing says it: room for all that there is, but for long labeled texts. */
static size_t context_of(const bo_texts *texts)
{
    size_t longest = 1;
    for (size_t side = 0; side < bo_texts_sides(texts); side++)
        if (bo_texts_longest(texts, side) > longest) longest = bo_texts_longest(texts, side);
    const size_t power = power_of_two(longest);
    if (!bo_texts_labels(texts)) return power > TRANSLATED_CONTEXT ? power : TRANSLATED_CONTEXT;
    return power < LABELED_CONTEXT ? power : LABELED_CONTEXT;
}

static size_t said_context(const cli_train_job *job)
{
    if (job->options->context) return job->options->context;
    return job->model ? bo_model_describe(job->model)->context : cli_train_describe_model(job).context;
}

static bool open_training(cli_train_job *job, bo_texts_desc *desc)
{
    const cli_train_options *o = job->options;
    const bool said = o->context || o->preset >= 0 || given_model(job);
    bo_context *context = job->session->context;
    if (said) job->longest = desc->longest = said_context(job);
    if (!ok(job, bo_texts_open(context, desc, &job->texts))) return false;
    if (said) return true;
    job->longest = desc->longest = context_of(job->texts);
    if (bo_texts_longest(job->texts, 0) <= job->longest &&
        (bo_texts_sides(job->texts) == 1 || bo_texts_longest(job->texts, 1) <= job->longest))
        return true;
    bo_texts_close(job->texts);
    job->texts = NULL;
    return ok(job, bo_texts_open(context, desc, &job->texts));
}

bool cli_train_texts_open(cli_train_job *job, const char *const *paths, size_t count)
{
    const cli_train_options *o = job->options;
    const bool cut = !o->valid && o->valid_fraction > 0;
    bo_texts_desc desc = training_texts(job, paths, count);
    if (!open_training(job, &desc)) return false;
    if (!cut && !o->valid) return true;
    desc.labels = bo_texts_labels(job->texts);
    desc.classes = bo_texts_classes(job->texts);
    desc.skip = cut ? desc.take : 0;
    desc.take = cut ? 0 : 1; /* in an order of its own: a test may look at a part, and files are often sorted */
    if (!cut) desc.paths = &o->valid, desc.path_count = 1;
    return ok(job, bo_texts_open(job->session->context, &desc, &job->held_out_texts));
}

/* ---- model and run ------------------------------------------------------------------------------------------------------------ */

static void describe_cross(const cli_train_options *o, bo_model_desc *d)
{
    const cli_train_texts *t = &o->texts;
    if (t->encoder_layers) d->encoder_layers = t->encoder_layers;
    if (t->cross >= 0) d->cross = (bo_cross)t->cross;
    if (t->cross_attention < 0) return;
    cli_attention_options attention = o->attention;
    attention.kind = t->cross_attention;
    d->cross_attention = cli_attention_numbered(&attention, 0);
    d->cross_attention.heads = d->heads; /* all zero, as the exact kind is, would mean the kind of the mixer */
    d->cross_attention.window = 0;       /* it is the mixer's */
    d->cross_attention.causal = false;
}

void cli_train_texts_describe(const cli_train_job *job, bo_model_desc *d)
{
    const cli_train_options *o = job->options;
    const cli_train_texts *t = &o->texts;
    const bool kept = same_task(job);
    d->task = (bo_model_task)t->task;
    d->classes = job->texts ? bo_texts_classes(job->texts) : 0;
    d->labels = job->texts ? bo_texts_labels(job->texts) : NULL;
    if (job->longest) d->context = job->longest;
    if (!kept) {
        const bo_model_desc none = {0};
        d->pooling = none.pooling;
        d->forward = none.forward;
        d->encoder_layers = none.encoder_layers;
        d->cross = none.cross;
        d->cross_attention = none.cross_attention;
    }
    if (d->task == BO_MODEL_TRANSLATE && d->vocab <= bo_tokenizer_vocab(job->tokenizer))
        d->vocab = 0; /* with an end, which the model sees to */
    if (t->pooling >= 0) d->pooling = (bo_pooling)t->pooling;
    d->forward |= t->forward;
    if (d->task == BO_MODEL_TRANSLATE) describe_cross(o, d);
}

void cli_train_texts_run(cli_train_job *job)
{
    const cli_train_options *o = job->options;
    const bool translates = o->texts.task == BO_MODEL_TRANSLATE;
    job->desc.texts = job->texts;
    job->desc.held_out_texts = job->held_out_texts;
    job->desc.pack = o->texts.pack;
    job->desc.smoothing = !isnan(o->texts.smoothing) ? o->texts.smoothing : translates ? TRANSLATED_SMOOTHING : 0;
}
