/* bochner train --task classify, match and translate: trains a model on tab-separated lines. */
#include "train.h"
#include "../model/blocks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Limits of the default context: labeled texts longer than this are truncated; translations have at least this
 * context. */
enum { LABELED_CONTEXT = 2048, TRANSLATED_CONTEXT = 256 };
static const double TRANSLATED_SMOOTHING = 0.1;

/* ---- options ----------------------------------------------------------------------------------------------------- */

const cli_option cli_train_texts_rows[] = {
    SECTION("Text classification, matching and translation"),
    CHOICE(
        "task", "NAME", cli_train_texts_options, task, BO_ENUM_MODEL_TASK,
        "task of the model; the tab-separated columns are label and text (classify), label and two texts (match), or "
        "source and target (translate)",
        .initial = "language", .without = 1u << BO_MODEL_TASK_PREDICT),
    COUNT("pack", "N", cli_train_texts_options, pack,
          "tokens per pack; a pack holds several whole examples, and --batch counts packs", .low = 1, .high = 1 << 30,
          .default_text = "2048"),
    CHOICE("pooling", "HOW", cli_train_texts_options, pooling, BO_ENUM_POOLING,
           "for classify and match: combines the token vectors of a text into one vector", .default_text = "mean"),
    FLAG(
        "forward", cli_train_texts_options, forward,
        "for classify and match: causal layers only, so that texts of any length can be streamed with a state of fixed "
        "size"),
    COUNT("encoder-layers", "N", cli_train_texts_options, encoder_layers, "for translate: encoder layers", .low = 1,
          .high = 1 << 12, .default_text = "the value of --layers"),
    CHOICE_OF("encoder-attention", "KIND", cli_train_texts_options, encoder_attention, cli_attention_kind_choice,
              "for translate: attention in the encoder", .find = cli_attention_preset,
              .default_text = "the value of --attention"),
    COUNT("encoder-features", "D", cli_train_texts_options, encoder_features,
          "for translate: number of features in the encoder", .low = 1, .high = 1 << 24,
          .default_text = "the value of --features"),
    CHOICE("cross", "HOW", cli_train_texts_options, cross, BO_ENUM_CROSS,
           "for translate: connection from the source to the decoder", .default_text = "attention"),
    CHOICE_OF("cross-attention", "KIND", cli_train_texts_options, cross_attention, cli_attention_kind_choice,
              "for translate: attention from the decoder to the source", .find = cli_attention_preset,
              .default_text = "the value of --attention"),
    COUNT("cross-features", "D", cli_train_texts_options, cross_features,
          "for translate: number of features in the attention from the decoder to the source", .low = 1,
          .high = 1 << 24, .default_text = "the value of --features"),
    REAL("smoothing", "E", cli_train_texts_options, smoothing, "label smoothing", .high = 0.9,
         .default_text = "0; for translate 0.1"),
    END_OF_OPTIONS,
};

static bool is_requested(const cli_train_options *o)
{
    return o->texts.task != BO_MODEL_TASK_LANGUAGE;
}

/* The first given option that applies to classify and match only, or to translate only; NULL: none. */
static const char *label_option(const cli_train_texts_options *t)
{
    return CLI_GIVEN(t, pooling) ? "pooling" : t->forward ? "forward" : NULL;
}

static const char *translation_option(const cli_train_texts_options *t)
{
    return CLI_GIVEN(t, encoder_layers)      ? "encoder-layers"
           : CLI_GIVEN(t, encoder_attention) ? "encoder-attention"
           : CLI_GIVEN(t, encoder_features)  ? "encoder-features"
           : CLI_GIVEN(t, cross)             ? "cross"
           : CLI_GIVEN(t, cross_attention)   ? "cross-attention"
           : CLI_GIVEN(t, cross_features)    ? "cross-features"
                                             : NULL;
}

static int not_label(const char *option)
{
    return cli_usage_error("train", "--%s needs --task classify or match", option);
}

static int not_translation(const char *option)
{
    return cli_usage_error("train", "--%s needs --task translate", option);
}

/* The attention of the encoder, or cross attention: `kind` (NULL: the kind of the decoder) with the applicable options
 * of the decoder. */
static cli_attention_options part_options(const cli_train_options *o, const unsigned *kind)
{
    const cli_attention_options decoder = cli_train_attention(o, &cli_train_texts);
    return cli_attention_as(&decoder, kind ? *kind : decoder.kind);
}

/* --encoder-features and --cross-features apply to kinds with random features only. */
static int check_part(const cli_train_options *o, const char *part, bool features, const unsigned *kind)
{
    const cli_attention_options options = part_options(o, kind);
    const bo_attention_desc a = cli_attention_named(&options);
    if (features && !bo_attention_has(&a, BO_TRAIT_DRAWS))
        return cli_usage_error("train", "--%s-features needs an attention with random features there, found %s", part,
                               cli_attention_kind_choice(options.kind));
    if (features && o->init && !kind && !CLI_GIVEN(&o->attention, kind))
        return cli_usage_error("train", "--%s-features with --init needs --%s-attention KIND or --attention KIND", part,
                               part);
    return kind ? cli_attention_check_layer(&options) : CLI_DONE;
}

static int check_parts(const cli_train_options *o)
{
    const cli_train_texts_options *t = &o->texts;
    const bool encoder = CLI_GIVEN(t, encoder_attention), cross = CLI_GIVEN(t, cross_attention);
    if (t->cross == BO_CROSS_SUMMARY && (cross || CLI_GIVEN(t, cross_features)))
        return cli_usage_error("train", "--cross-%s has no effect with --cross summary; leave one of them out",
                               cross ? "attention" : "features");
    if (cli_train_other_mixer(o) && (encoder || CLI_GIVEN(t, encoder_features)))
        return cli_usage_error("train", "--encoder-%s needs --mixer attention; the encoder has the mixer %s",
                               encoder ? "attention" : "features", bo_enum_name(BO_ENUM_MIXER, o->mixer));
    const int status = check_part(o, "encoder", CLI_GIVEN(t, encoder_features), encoder ? &t->encoder_attention : NULL);
    if (status != CLI_DONE) return status;
    return check_part(o, "cross", CLI_GIVEN(t, cross_features), cross ? &t->cross_attention : NULL);
}

static int check(const cli_train_args *args)
{
    const cli_train_options *o = &args->options;
    const cli_train_texts_options *t = &o->texts;
    const bool translates = t->task == BO_MODEL_TASK_TRANSLATE;
    const char *language = o->field                      ? "field"
                           : o->separator                ? "separator"
                           : o->documents                ? "documents"
                           : o->stateful                 ? "stateful"
                           : CLI_GIVEN(o, state_windows) ? "state-windows"
                                                         : NULL;
    if (label_option(t) && translates) return not_label(label_option(t));
    if (translation_option(t) && !translates) return not_translation(translation_option(t));
    if (language)
        return cli_usage_error("train", "--%s is an option of language models; leave it out with --task %s", language,
                               bo_enum_name(BO_ENUM_MODEL_TASK, t->task));
    const int status = check_parts(o);
    if (status != CLI_DONE) return status;
    if (t->forward && t->pooling == BO_POOLING_FIRST)
        return cli_usage_error(
            "train", "--pooling first cannot be used with --forward: the first token does not see the tokens after it");
    return cli_train_check_text(o, &cli_train_texts);
}

static int check_absent(const cli_train_options *o)
{
    const cli_train_texts_options *t = &o->texts;
    const char *any = CLI_GIVEN(t, pack) ? "pack" : CLI_GIVEN(t, smoothing) ? "smoothing" : NULL;
    if (any) return cli_usage_error("train", "--%s needs --task classify, match or translate", any);
    if (label_option(t)) return not_label(label_option(t));
    return translation_option(t) ? not_translation(translation_option(t)) : CLI_DONE;
}

/* The better default for each task: docs/results.md. */
static const char *attention(const cli_train_options *o)
{
    return o->texts.task == BO_MODEL_TASK_TRANSLATE ? "rfa-gate" : "rfa";
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* The model of --init, which may have adapters; NULL: none. */
static const bo_model *given_model(const cli_train_job *job)
{
    return job->init ? job->init : job->model;
}

static bool accepts(const cli_train_job *job, const bo_model *init)
{
    (void)job;
    (void)init;
    return true;
}

/* A model with the same task also defines the classes. */
static bool same_task(const cli_train_job *job)
{
    const bo_model *model = given_model(job);
    return model && bo_model_describe(model)->task == job->options->texts.task;
}

/* The description of the training texts, without members that need a tokenizer. */
static bo_texts_desc training_files(const cli_train_job *job, const char *const *paths, size_t count)
{
    static const bo_texts_kind kinds[] = {[BO_MODEL_TASK_CLASSIFY] = BO_TEXTS_LABELED,
                                          [BO_MODEL_TASK_MATCH] = BO_TEXTS_LABELED_PAIR,
                                          [BO_MODEL_TASK_TRANSLATE] = BO_TEXTS_PAIR};
    const cli_train_options *o = job->options;
    return (bo_texts_desc){.kind = kinds[o->texts.task],
                           .paths = paths,
                           .path_count = count,
                           .take = !o->valid && o->valid_fraction > 0 ? 1 - o->valid_fraction : 0,
                           .seed = job->session->common.seed};
}

static bool learn_tokenizer(cli_train_job *job, const char *const *paths, size_t count, const bo_tokenizer_desc *desc)
{
    const bo_texts_desc files = training_files(job, paths, count);
    return cli_train_ok(job, bo_tokenizer_train_texts(job->session->context, desc, &files, &job->tokenizer));
}

static bo_texts_desc training_texts(const cli_train_job *job, const char *const *paths, size_t count)
{
    const bo_model_task task = job->options->texts.task;
    const int32_t end = bo_tokenizer_describe(job->tokenizer)->end;
    bo_texts_desc desc = training_files(job, paths, count), model = {0};
    if (same_task(job)) {
        bo_model_preset_texts(given_model(job), false, &model);
        desc.labels = model.labels;
        desc.classes = model.classes;
    }
    desc.tokenizer = job->tokenizer;
    if (task == BO_MODEL_TASK_TRANSLATE)
        desc.end = end >= 0 ? (size_t)end + 1 : bo_tokenizer_describe(job->tokenizer)->vocab + 1;
    desc.cut = task != BO_MODEL_TASK_TRANSLATE;
    return desc;
}

/* The smallest power of two that is at least `minimum`. */
static size_t power_of_two(size_t minimum)
{
    size_t power = 1;
    while (power < minimum) power *= 2;
    return power;
}

/* The default context: long enough for all texts, except very long labeled texts. */
static size_t context_of(const bo_texts *texts)
{
    size_t longest = 1;
    for (size_t side = 0; side < bo_texts_describe(texts)->sides; side++)
        if (bo_texts_describe(texts)->longest[side] > longest) longest = bo_texts_describe(texts)->longest[side];
    const size_t power = power_of_two(longest);
    if (!bo_texts_describe(texts)->labels) return power > TRANSLATED_CONTEXT ? power : TRANSLATED_CONTEXT;
    return power < LABELED_CONTEXT ? power : LABELED_CONTEXT;
}

static bool set_longest(cli_train_job *job, size_t *out)
{
    bo_model_desc desc = {0};
    *out = job->options->context;
    if (!*out && job->model) *out = bo_model_describe(job->model)->context;
    if (*out) return true;
    const bool described = cli_train_describe_model(job, &desc);
    *out = desc.context;
    return described;
}

static bool open_training(cli_train_job *job, bo_texts_desc *desc)
{
    const cli_train_options *o = job->options;
    const bool known = o->context || CLI_GIVEN(o, preset) || given_model(job);
    bo_context *context = job->session->context;
    if (known && !set_longest(job, &job->longest)) return false;
    if (known) desc->longest = job->longest;
    if (!cli_train_ok(job, bo_texts_open(context, desc, &job->texts))) return false;
    if (known) return true;
    job->longest = desc->longest = context_of(job->texts);
    if (bo_texts_describe(job->texts)->longest[0] <= job->longest &&
        (bo_texts_describe(job->texts)->sides == 1 || bo_texts_describe(job->texts)->longest[1] <= job->longest))
        return true;
    bo_texts_close(job->texts);
    job->texts = NULL;
    return cli_train_ok(job, bo_texts_open(context, desc, &job->texts));
}

static bool open_files(cli_train_job *job, const char *const *paths, size_t count)
{
    const cli_train_options *o = job->options;
    const bool cut = !o->valid && o->valid_fraction > 0;
    bo_texts_desc desc = training_texts(job, paths, count);
    if (!open_training(job, &desc)) return false;
    if (!cut && !o->valid) return true;
    desc.labels = bo_texts_describe(job->texts)->labels;
    desc.classes = bo_texts_describe(job->texts)->classes;
    desc.skip = cut ? desc.take : 0;
    desc.take = cut ? 0 : 1; /* shuffled: an evaluation may use a part, and files are often sorted */
    if (!cut) desc.paths = &o->valid, desc.path_count = 1;
    return cli_train_ok(job, bo_texts_open(job->session->context, &desc, &job->held_out_texts));
}

/* ---- model and run ----------------------------------------------------------------------------------------------- */

static bo_attention_desc part_attention(const cli_train_job *job, const bo_model_desc *d, const unsigned *kind)
{
    const cli_attention_options options = part_options(job->options, kind);
    bo_attention_desc a = cli_attention_numbered(&options, 0);
    if (!kind && CLI_GIVEN(job->options, gate)) a.gate = job->options->gate;
    a.heads = bo_model_block(d, 0)->heads; /* softmax is all zero, which stands for the attention of the decoder */
    a.causal = false;
    return a;
}

/* Creates separate blocks of the encoder, as copies of the blocks of the decoder. */
static cli_blocks separate_encoder(cli_train_job *job, bo_model_desc *d)
{
    const cli_blocks list = cli_blocks_of(d);
    if (d->encoder_blocks || d->encoder.heads) return cli_encoder_blocks_of(d);
    d->encoder = list.blocks[0];
    if (list.count == 1) return cli_encoder_blocks_of(d);
    free(job->encoder_blocks);
    job->encoder_blocks = cli_allocate(list.count, sizeof *job->encoder_blocks, "blocks");
    memcpy(job->encoder_blocks, list.blocks, list.count * sizeof *job->encoder_blocks);
    d->encoder_blocks = job->encoder_blocks;
    d->encoder_block_count = list.count;
    return cli_encoder_blocks_of(d);
}

static void set_encoder(bo_block *b, const bo_attention_desc *given, size_t features)
{
    bo_attention_desc a = *given;
    a.heads = b->heads;
    if (b->attention.kind != a.kind) { /* sets its own norms and initial values */
        b->query_norm = b->output_norm = BO_CHOICE_AUTO;
        if (bo_attention_has(&b->attention, BO_TRAIT_MIX) != bo_attention_has(&a, BO_TRAIT_MIX)) b->sigma = 1;
    }
    b->attention = a;
    if (features) b->attention.features.features = features;
}

static bool describe_encoder(cli_train_job *job, bo_model_desc *d)
{
    const cli_train_texts_options *t = &job->options->texts;
    const bool named = CLI_GIVEN(t, encoder_attention);
    size_t set = 0;
    if (t->encoder_layers) d->encoder_layers = t->encoder_layers;
    if (!named && !CLI_GIVEN(t, encoder_features)) return true;
    const bo_attention_desc a = part_attention(job, d, named ? &t->encoder_attention : NULL);
    const cli_blocks list = separate_encoder(job, d);
    for (size_t i = 0; i < list.count; i++) {
        if (list.blocks[i].mixer != BO_MIXER_ATTENTION) continue;
        set_encoder(&cli_mutable_blocks(list)[i], &a, t->encoder_features);
        set++;
    }
    if (d->encoder_blocks) d->encoder = d->encoder_blocks[0];
    if (set) return true;
    cli_fail(job->session, "--encoder-%s: no layer of the encoder has attention; the first has the mixer %s",
             named ? "attention" : "features", bo_enum_name(BO_ENUM_MIXER, list.blocks[0].mixer));
    return false;
}

/* All zero: the cross attention copies the attention. */
static void set_cross(bo_model_desc *d, const bo_attention_desc *a)
{
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++) cli_mutable_blocks(list)[i].cross_attention = *a;
}

static void describe_cross(const cli_train_job *job, bo_model_desc *d)
{
    const cli_train_texts_options *t = &job->options->texts;
    const bool named = CLI_GIVEN(t, cross_attention);
    if (CLI_GIVEN(t, cross)) d->cross = t->cross;
    if (!named && !CLI_GIVEN(t, cross_features)) return;
    bo_attention_desc a = part_attention(job, d, named ? &t->cross_attention : NULL);
    a.window = 0; /* only the mixer has a window */
    if (!named) a.gate = BO_GATE_NONE;
    if (t->cross_features) a.features.features = t->cross_features;
    set_cross(d, &a);
}

static bool describe_model(cli_train_job *job, bo_model_desc *d)
{
    const cli_train_options *o = job->options;
    const cli_train_texts_options *t = &o->texts;
    const bool kept = same_task(job);
    d->task = t->task;
    d->classes = job->texts ? bo_texts_describe(job->texts)->classes : 0;
    d->labels = job->texts ? bo_texts_describe(job->texts)->labels : NULL;
    if (job->longest) d->context = job->longest;
    if (!kept && !o->blocks) {
        const bo_model_desc none = {0};
        d->pooling = none.pooling;
        d->forward = none.forward;
        d->encoder_layers = none.encoder_layers;
        d->cross = none.cross;
    }
    if ((!kept && !o->blocks) || CLI_GIVEN(&o->attention, kind)) { /* defaults follow --attention */
        d->encoder = (bo_block){0};
        d->encoder_blocks = NULL;
        d->encoder_block_count = 0;
        set_cross(d, &(bo_attention_desc){0});
    }
    if (d->task == BO_MODEL_TASK_TRANSLATE && d->vocab <= bo_tokenizer_describe(job->tokenizer)->vocab)
        d->vocab = 0; /* the model adds the end token */
    if (CLI_GIVEN(t, pooling)) d->pooling = t->pooling;
    d->forward |= t->forward;
    if (d->task != BO_MODEL_TASK_TRANSLATE) return true;
    if (!describe_encoder(job, d)) return false;
    describe_cross(job, d);
    return true;
}

static void describe(cli_train_job *job)
{
    const cli_train_texts_options *t = &job->options->texts;
    const bool translates = t->task == BO_MODEL_TASK_TRANSLATE;
    job->desc.model = job->model;
    job->desc.train.texts = job->texts;
    job->desc.valid.texts = job->held_out_texts;
    job->desc.pack = t->pack;
    job->desc.smoothing = CLI_GIVEN(t, smoothing) ? t->smoothing : translates ? TRANSLATED_SMOOTHING : 0;
}

enum { CLASSES_SHOWN = 12, CLASSES_TEXT = 512 };

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* The number of examples per class; freed by the caller. */
static size_t *count_classes(const bo_texts *texts)
{
    size_t *counts = cli_allocate(bo_texts_describe(texts)->classes, sizeof *counts, "classes");
    for (size_t i = 0; i < bo_texts_describe(texts)->count; i++) {
        bo_text text;
        bo_texts_get(texts, i, 0, &text);
        counts[text.label]++;
    }
    return counts;
}

/* "neg 11,250, pos 11,250" */
static void format_classes(const bo_texts *texts, const size_t *counts, char out[CLASSES_TEXT])
{
    const char *const *labels = bo_texts_describe(texts)->labels;
    const size_t classes = bo_texts_describe(texts)->classes;
    size_t length = 0;
    out[0] = 0;
    for (size_t c = 0; c < classes && c < CLASSES_SHOWN && length < CLASSES_TEXT; c++)
        length += (size_t)snprintf(out + length, CLASSES_TEXT - length, "%s%.24s %s", c ? ", " : "", labels[c],
                                   cli_count(counts[c]).s);
    if (classes > CLASSES_SHOWN && length < CLASSES_TEXT)
        snprintf(out + length, CLASSES_TEXT - length, " and %s more classes", cli_count(classes - CLASSES_SHOWN).s);
}

/* Warns about classes without training examples, and about a number of classes that suggests that the first column is
 * not a label. */
static void report_classes(const cli_train_job *job)
{
    const size_t classes = bo_texts_describe(job->texts)->classes, examples = bo_texts_describe(job->texts)->count;
    size_t *counts = count_classes(job->texts), none = 0, first = 0;
    char classes_text[CLASSES_TEXT];
    format_classes(job->texts, counts, classes_text);
    cli_note(job->session, "Classes     %s", classes_text);
    for (size_t c = classes; c-- > 0;)
        if (counts[c] == 0) none++, first = c;
    if (classes - none > CLASSES_SHOWN && 4 * (classes - none) > examples)
        cli_warn(job->session, "%s classes in %s examples; check that the first column of the file is the label",
                 cli_count(classes - none).s, cli_count(examples).s);
    else if (none == 1)
        cli_warn(job->session, "no training example has the class '%s'", bo_texts_describe(job->texts)->labels[first]);
    else if (none)
        cli_warn(job->session, "no training example has the class '%s' or %s other classes of the %s",
                 bo_texts_describe(job->texts)->labels[first], cli_count(none - 1).s, cli_count(classes).s);
    free(counts);
}

static uint64_t tokens_of(const bo_texts *texts)
{
    uint64_t tokens = 0;
    for (size_t side = 0; side < bo_texts_describe(texts)->sides; side++)
        tokens += bo_texts_describe(texts)->tokens[side];
    return tokens;
}

static void report_examples(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    char files[CLI_TRAIN_FILES], test[96] = "";
    if (job->held_out_texts)
        snprintf(test, sizeof test, ", %s for validation%s", cli_count(bo_texts_describe(job->held_out_texts)->count).s,
                 o->valid ? "" : " (random lines)");
    cli_note(job->session, "Texts       %s: %s example%s for training%s; %s", cli_train_files(job, files),
             cli_count(bo_texts_describe(job->texts)->count).s, bo_texts_describe(job->texts)->count == 1 ? "" : "s",
             test, bo_tokenizer_describe(job->tokenizer)->bytes ? "one token per byte" : "byte-pair tokenizer");
}

static void report_tokens(const cli_train_job *job)
{
    const bo_texts *texts = job->texts;
    char longest[128], cut[128] = "";
    if (bo_texts_describe(texts)->sides == 2)
        snprintf(longest, sizeof longest, "%s and %s", cli_count(bo_texts_describe(texts)->longest[0]).s,
                 cli_count(bo_texts_describe(texts)->longest[1]).s);
    else
        snprintf(longest, sizeof longest, "%s", cli_count(bo_texts_describe(texts)->longest[0]).s);
    if (bo_texts_describe(texts)->truncated)
        snprintf(cut, sizeof cut, "; %s longer texts are truncated to that length (--context)",
                 cli_count(bo_texts_describe(texts)->truncated).s);
    cli_note(job->session, "Tokens      %s; longest text %s%s", cli_count(tokens_of(texts)).s, longest, cut);
}

static void report_run(const cli_train_job *job)
{
    const bo_trainer_desc *r = &job->desc;
    const bo_training_cost *p = &job->plan;
    const double epoch = (double)p->items_of_epoch, examples = (double)bo_texts_describe(job->texts)->count / epoch;
    char length[256] = "the steps left in the run", about[CLI_TRAIN_ABOUT];
    if (r->steps)
        snprintf(length, sizeof length, "%s steps (%s epochs)%s", cli_count(r->steps).s,
                 cli_significant((double)r->steps * (double)p->batch / epoch, 2).s, cli_train_about(job, about));
    else if (r->minutes > 0)
        snprintf(length, sizeof length, "%s", cli_seconds(60 * r->minutes).s);
    cli_note(job->session, "Plan        %s; %zu pack%s of %s tokens per step%s, %.0f%% full, about %s examples; %s",
             length, p->batch, p->batch == 1 ? "" : "s", cli_count(p->item_tokens).s,
             p->micro_batch < p->batch ? " in several parts" : "", 100 * p->fill,
             cli_count((size_t)(examples * (double)p->batch + 0.5)).s,
             bo_enum_name(BO_ENUM_OPTIMIZER_KIND, r->optimizer.kind));
}

static void report_plan(const cli_train_job *job)
{
    report_examples(job);
    if (bo_texts_describe(job->texts)->labels) report_classes(job);
    report_tokens(job);
    cli_train_report_model(job);
    report_run(job);
    cli_train_report_memory(job);
}

/* ---- progress and report ----------------------------------------------------------------------------------------- */

static void format_score(const bo_training_report *r, char *out, size_t size)
{
    if (strcmp(r->metric, "accuracy") == 0)
        snprintf(out, size, "accuracy %.2f%%", 100 * r->valid_metric);
    else
        snprintf(out, size, "perplexity %.4g", r->valid_metric);
}

static void format_loss(const cli_train_job *job, const bo_training_report *r, char out[CLI_TRAIN_LOSS])
{
    (void)job;
    char score[64];
    const int length = snprintf(out, CLI_TRAIN_LOSS, "loss %.3f", r->loss);
    if (isnan(r->valid_loss)) return;
    format_score(r, score, sizeof score);
    snprintf(out + length, CLI_TRAIN_LOSS - (size_t)length, "  valid %.3f (%s)", r->valid_loss, score);
}

static void print(const cli_train_job *job)
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    const bool tested = !isnan(r->valid_loss), translates = !bo_texts_describe(job->texts)->labels;
    char score[64];
    printf("Trained     %s steps, %s tokens, in %s%s\n", cli_count(r->step).s, cli_count(r->tokens).s,
           cli_seconds(r->seconds).s,
           r->stopped_early ? "; stopped early: the validation loss no longer improved" : "");
    format_score(r, score, sizeof score);
    if (tested)
        printf("Validation  %s, %.4f nats per %s; best %.4f\n", score, r->valid_loss, translates ? "token" : "example",
               r->best_valid_loss);
    cli_train_print_directory(job, "Model");
}

/* Both commands read standard input. */
static void suggest_next(const cli_train_job *job, const char *directory)
{
    if (bo_texts_describe(job->texts)->labels)
        cli_suggest_next(job->session, "bochner predict %s -", directory);
    else
        cli_suggest_next(job->session, "bochner generate %s", directory);
}

static void json_data(const cli_train_job *job, cli_json *json)
{
    const bo_model_desc *d = bo_model_describe(job->model);
    cli_json_add_text(json, "task", bo_enum_name(BO_ENUM_MODEL_TASK, d->task));
    cli_json_add_count(json, "examples", bo_texts_describe(job->texts)->count);
    cli_json_add_count(json, "test_examples", job->held_out_texts ? bo_texts_describe(job->held_out_texts)->count : 0);
    if (d->classes) cli_json_add_count(json, "classes", d->classes);
    cli_json_add_count(json, "cut", bo_texts_describe(job->texts)->truncated);
    cli_json_add_number(json, "pack_fill", job->plan.fill);
}

static void json(const cli_train_job *job)
{
    cli_train_model_json(job, json_data);
}

static const char *plot_labels(const cli_train_job *job, char title[CLI_TRAIN_TITLE])
{
    cli_train_model_title(job->model, title);
    return bo_texts_describe(job->texts)->labels ? "nats per example" : "nats per token";
}

const cli_train_kind cli_train_texts = {
    .unit = "tokens",
    .test_tokens = 500000,
    .reads_twice = true,
    .is_requested = is_requested,
    .check = check,
    .check_absent = check_absent,
    .attention = attention,
    .open = cli_train_open_model,
    .describe = describe,
    .report_plan = report_plan,
    .format_loss = format_loss,
    .print = print,
    .suggest_next = suggest_next,
    .json = json,
    .plot_labels = plot_labels,
    .learn_tokenizer = learn_tokenizer,
    .open_files = open_files,
    .accepts = accepts,
    .describe_model = describe_model,
};
