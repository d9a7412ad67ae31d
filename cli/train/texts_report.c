/* What `bochner train` says of labeled texts and translations. */
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES_SHOWN = 12, WORDS = 512 };

/* ---- before ------------------------------------------------------------------------------------------------------------------ */

/* How often each class comes; freed by the caller. */
static size_t *count_classes(const bo_texts *texts)
{
    size_t *counts = cli_allocate(bo_texts_classes(texts), sizeof *counts, "classes");
    for (size_t i = 0; i < bo_texts_count(texts); i++) counts[bo_texts_label(texts, i)]++;
    return counts;
}

/* "neg 11,250, pos 11,250" */
static void class_words(const bo_texts *texts, const size_t *counts, char out[WORDS])
{
    const char *const *labels = bo_texts_labels(texts);
    const size_t classes = bo_texts_classes(texts);
    size_t length = 0;
    out[0] = 0;
    for (size_t c = 0; c < classes && c < CLASSES_SHOWN && length < WORDS; c++)
        length += (size_t)snprintf(out + length, WORDS - length, "%s%.24s %s", c ? ", " : "", labels[c],
                                   cli_count(counts[c]).s);
    if (classes > CLASSES_SHOWN && length < WORDS)
        snprintf(out + length, WORDS - length, " and %s classes more", cli_count(classes - CLASSES_SHOWN).s);
}

/* Classes that only texts to test with have, or the model to begin with, cannot be learned; where there are about as many as
 * examples, what stands first is hardly a label. */
static void say_classes(const cli_train_job *job)
{
    const size_t classes = bo_texts_classes(job->texts), examples = bo_texts_count(job->texts);
    size_t *counts = count_classes(job->texts), none = 0, first = 0;
    char words[WORDS];
    class_words(job->texts, counts, words);
    cli_say(job->session, "Classes     %s", words);
    for (size_t c = classes; c-- > 0;)
        if (counts[c] == 0) none++, first = c;
    if (classes - none > CLASSES_SHOWN && 4 * (classes - none) > examples)
        cli_warn(job->session, "%s classes in %s examples: are they labels, what stands before the first tab?",
                 cli_count(classes - none).s, cli_count(examples).s);
    else if (none == 1)
        cli_warn(job->session, "no example to learn from has the class '%s'", bo_texts_labels(job->texts)[first]);
    else if (none)
        cli_warn(job->session, "no example to learn from has the class '%s', nor %s others of the %s",
                 bo_texts_labels(job->texts)[first], cli_count(none - 1).s, cli_count(classes).s);
    free(counts);
}

static uint64_t tokens_of(const bo_texts *texts)
{
    uint64_t tokens = 0;
    for (size_t side = 0; side < bo_texts_sides(texts); side++) tokens += bo_texts_tokens(texts, side);
    return tokens;
}

static void say_examples(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    char files[CLI_TRAIN_FILES], test[96] = "";
    if (job->held_out_texts)
        snprintf(test, sizeof test, ", %s to test with%s", cli_count(bo_texts_count(job->held_out_texts)).s,
                 o->valid ? "" : ", drawn from it");
    cli_say(job->session, "Texts       %s: %s example%s to learn from%s; %s", cli_train_files(job, files),
            cli_count(bo_texts_count(job->texts)).s, bo_texts_count(job->texts) == 1 ? "" : "s", test,
            bo_tokenizer_is_bytes(job->tokenizer) ? "a token is a byte" : "byte pairs");
}

static void say_tokens(const cli_train_job *job)
{
    const bo_texts *texts = job->texts;
    char longest[128], cut[128] = "";
    if (bo_texts_sides(texts) == 2)
        snprintf(longest, sizeof longest, "%s and %s", cli_count(bo_texts_longest(texts, 0)).s,
                 cli_count(bo_texts_longest(texts, 1)).s);
    else
        snprintf(longest, sizeof longest, "%s", cli_count(bo_texts_longest(texts, 0)).s);
    if (bo_texts_cut(texts))
        snprintf(cut, sizeof cut, "; %s were longer and are cut there (--context)", cli_count(bo_texts_cut(texts)).s);
    cli_say(job->session, "Tokens      %s; %s the longest%s", cli_count(tokens_of(texts)).s, longest, cut);
}

static void say_run(const cli_train_job *job)
{
    const bo_trainer_desc *r = &job->desc;
    const bo_trainer_plan *p = &job->plan;
    const double epoch = (double)p->items_of_epoch, examples = (double)bo_texts_count(job->texts) / epoch;
    char length[256] = "as many steps as it has";
    if (r->steps)
        snprintf(length, sizeof length, "%s steps (%s times the texts), roughly %s", cli_count(r->steps).s,
                 cli_significant((double)r->steps * (double)p->batch / epoch, 2).s,
                 cli_seconds(cli_train_expected_seconds(job)).s);
    else if (r->minutes > 0)
        snprintf(length, sizeof length, "%s", cli_seconds(60 * r->minutes).s);
    cli_say(job->session, "Plan        %s; %zu pack%s of %s tokens a step%s, %.0f%% full, about %s examples; %s",
            length, p->batch, p->batch == 1 ? "" : "s", cli_count(p->item_tokens).s,
            p->micro_batch < p->batch ? " in parts" : "", 100 * p->fill,
            cli_count((size_t)(examples * (double)p->batch + 0.5)).s, bo_optimizer_name(r->optimizer.kind));
}

void cli_train_texts_plan(const cli_train_job *job)
{
    say_examples(job);
    if (bo_texts_labels(job->texts)) say_classes(job);
    say_tokens(job);
    cli_train_say_model(job);
    say_run(job);
    cli_train_say_memory(job);
}

/* ---- meanwhile and after ------------------------------------------------------------------------------------------------------ */

static void score_words(const bo_training_report *r, char *out, size_t room)
{
    if (strcmp(r->metric, "accuracy") == 0)
        snprintf(out, room, "%.2f%% right", 100 * r->valid_metric);
    else
        snprintf(out, room, "perplexity %.4g", r->valid_metric);
}

void cli_train_texts_loss(const bo_training_report *r, char out[160])
{
    char score[64];
    const int length = snprintf(out, 160, "loss %.3f", r->loss);
    if (isnan(r->valid_loss)) return;
    score_words(r, score, sizeof score);
    snprintf(out + length, 160 - (size_t)length, "  test %.3f (%s)", r->valid_loss, score);
}

void cli_train_texts_print(const cli_train_job *job)
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    const bool tested = !isnan(r->valid_loss), translates = !bo_texts_labels(job->texts);
    const char *folder = job->options->out, *best = tested ? "/best" : "";
    char score[64];
    printf("Trained     %s steps, %s tokens, in %s%s\n", cli_count(r->step).s, cli_count(r->tokens).s,
           cli_seconds(r->seconds).s, r->stopped_early ? "; stopped early, the test got no better" : "");
    score_words(r, score, sizeof score);
    if (tested)
        printf("Test        %s, %.4f nats %s; least %.4f\n", score, r->valid_loss,
               translates ? "a token" : "an example", r->best_valid_loss);
    printf("Model       %s%s\n", folder, tested ? "; the one of least loss is in best/ there" : "");
    printf("Next        bochner eval %s%s --data TEST.tsv   or   bochner %s %s%s%s\n", folder, best,
           translates ? "generate" : "predict", folder, best, translates ? " < lines" : " FILE");
}

void cli_train_texts_json(const cli_train_job *job, cli_json *json)
{
    const bo_model_desc *d = bo_model_describe(job->model);
    cli_json_text(json, "task", bo_model_task_name(d->task));
    cli_json_count(json, "examples", bo_texts_count(job->texts));
    cli_json_count(json, "test_examples", job->held_out_texts ? bo_texts_count(job->held_out_texts) : 0);
    if (d->classes) cli_json_count(json, "classes", d->classes);
    cli_json_count(json, "cut", bo_texts_cut(job->texts));
    cli_json_number(json, "pack_fill", job->plan.fill);
}
