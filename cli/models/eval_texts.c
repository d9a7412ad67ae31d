/* bochner eval of a model that labels or translates texts. */
#include "text_tasks.h"
#include "../common/json.h"
#include "../common/metrics.h"
#include "../common/plot.h"
#include <stdlib.h>

static const char *const tokenizations[] = {"13a", "none"};

const char *cli_tokenize_name(unsigned index)
{
    return index < CLI_COUNT_OF(tokenizations) ? tokenizations[index] : NULL;
}

typedef struct eval_job {
    cli_session *session;
    const cli_eval_texts_use *use;
    const bo_model *model;
    const bo_model_desc *desc;
    bo_texts *texts;
} eval_job;

static void print_rate(const eval_job *job, uint64_t examples, uint64_t tokens, double seconds)
{
    const double rate = seconds > 0 ? (double)tokens / seconds : 0;
    const char *what = job->desc->task == BO_MODEL_CLASSIFY ? "text" : "pair";
    printf("Texts       %s %s%s, %s tokens in %s, %s tokens/s\n", cli_count(examples).s, what, examples == 1 ? "" : "s",
           cli_count(tokens).s, cli_seconds(seconds).s, cli_count((size_t)rate).s);
}

static void json_rate(cli_json *json, uint64_t examples, uint64_t tokens, double seconds)
{
    cli_json_count(json, "examples", examples);
    cli_json_count(json, "tokens", tokens);
    cli_json_number(json, "seconds", seconds);
    cli_json_number(json, "tokens_per_second", seconds > 0 ? (double)tokens / seconds : 0);
}

static void json_begin(const eval_job *job, cli_json *json)
{
    *json = (cli_json){.out = stdout};
    cli_json_object(json, NULL);
    cli_json_text(json, "task", bo_model_task_name(job->desc->task));
}

/* ---- labels --------------------------------------------------------------------------------------------------------------- */

static void print_labels(const eval_job *job, const bo_classification *found)
{
    printf("Accuracy    %.2f%%\n", 100 * found->accuracy);
    printf("Loss        %.4f nats\n", found->loss);
    print_rate(job, found->examples, found->tokens, found->seconds);
    cli_metrics_print_confusion(found->metrics, NULL, stdout);
}

static void json_labels(const eval_job *job, const bo_classification *found)
{
    cli_json json;
    json_begin(job, &json);
    cli_json_number(&json, "accuracy", found->accuracy);
    cli_json_number(&json, "loss", found->loss);
    json_rate(&json, found->examples, found->tokens, found->seconds);
    cli_json_count(&json, "cut", bo_texts_cut(job->texts));
    cli_metrics_json_confusion(found->metrics, NULL, &json);
    cli_json_end(&json);
}

static int evaluate_labels(const eval_job *job)
{
    bo_classification found = {0};
    const bo_status status =
        bo_model_evaluate_labels(job->session->context, job->model, job->texts, job->use->examples, &found);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? json_labels : print_labels)(job, &found);
    const int ended = job->use->plot ? cli_plot(job->session, found.metrics, NULL, job->use->plot) : CLI_DONE;
    bo_classification_free(&found);
    return ended;
}

/* ---- translations ----------------------------------------------------------------------------------------------------------- */

static size_t beam_of(const eval_job *job)
{
    return job->use->translate.beam ? job->use->translate.beam : 1;
}

static void print_translation(const eval_job *job, const bo_translation *found)
{
    const bo_bleu *b = &found->bleu;
    printf("BLEU        %.2f (%s, beam %zu; n-grams %.1f/%.1f/%.1f/%.1f, brevity penalty %.3f, length %s of %s)\n",
           b->score, tokenizations[job->use->tokenize], beam_of(job), b->precisions[0], b->precisions[1],
           b->precisions[2], b->precisions[3], b->brevity_penalty, cli_count(b->length).s,
           cli_count(b->reference_length).s);
    printf("Loss        %.4f nats a token of the targets, perplexity %s\n", found->loss,
           cli_significant(found->perplexity, 4).s);
    print_rate(job, found->examples, found->tokens, found->seconds);
    printf("State       %s of a hypothesis\n", cli_bytes((double)found->state_bytes).s);
}

static void json_translation(const eval_job *job, const bo_translation *found)
{
    const bo_bleu *b = &found->bleu;
    cli_json json;
    json_begin(job, &json);
    cli_json_number(&json, "bleu", b->score);
    cli_json_array(&json, "precisions");
    for (size_t i = 0; i < CLI_COUNT_OF(b->precisions); i++) cli_json_number(&json, NULL, b->precisions[i]);
    cli_json_end(&json);
    cli_json_number(&json, "brevity_penalty", b->brevity_penalty);
    cli_json_count(&json, "length", b->length);
    cli_json_count(&json, "reference_length", b->reference_length);
    cli_json_text(&json, "tokenize", tokenizations[job->use->tokenize]);
    cli_json_count(&json, "beam", beam_of(job));
    cli_json_number(&json, "loss", found->loss);
    cli_json_number(&json, "perplexity", found->perplexity);
    json_rate(&json, found->examples, found->tokens, found->seconds);
    cli_json_count(&json, "state_bytes", found->state_bytes);
    cli_json_end(&json);
}

static int evaluate_translation(const eval_job *job)
{
    const cli_eval_texts_use *use = job->use;
    const bo_translate_desc desc = cli_translate_desc(&use->translate);
    bo_translation found = {0};
    const bo_status status = bo_model_evaluate_translation(job->session->context, job->model, job->texts, use->examples,
                                                           &desc, use->tokenize == 0, true, &found);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? json_translation : print_translation)(job, &found);
    return CLI_DONE;
}

/* ---- both ------------------------------------------------------------------------------------------------------------------- */

/* An option given that the other task alone has; NULL: none. */
static const char *foreign_option(const cli_eval_texts_use *use, bool translates)
{
    const char *of_translation = use->of_translation;
    const char *of_labels = use->plot ? "plot" : use->context ? "context" : NULL;
    return translates ? of_labels : of_translation;
}

int cli_eval_texts(cli_session *session, const bo_model *model, const cli_eval_texts_use *use)
{
    eval_job job = {.session = session, .use = use, .model = model, .desc = bo_model_describe(model)};
    const bool translates = job.desc->task == BO_MODEL_TRANSLATE;
    const char *foreign = foreign_option(use, translates);
    if (foreign) return cli_wrong_task_option(session, foreign, use->folder, job.desc->task);
    bo_texts_desc desc = cli_texts_desc(model, false, use->context);
    desc.paths = use->data->items;
    desc.path_count = use->data->count;
    desc.skip = use->last > 0 ? 1 - use->last : 0;
    desc.take = use->examples && desc.skip == 0 ? 1 : 0; /* some of all: drawn, files being often sorted by class */
    desc.seed = session->common.seed;
    const bo_status status = bo_texts_open(session->context, &desc, &job.texts);
    if (status != BO_OK) return cli_fail_status(session, status);
    cli_texts_say_cut(session, bo_texts_cut(job.texts), model, &desc);
    const int ended = translates ? evaluate_translation(&job) : evaluate_labels(&job);
    bo_texts_close(job.texts);
    return ended;
}
