/* bochner eval: how well a model predicts a text, labels texts or translates them. */
#include "../common/cli.h"
#include "../common/json.h"
#include "network.h"
#include "../common/paths.h"
#include "../common/plot.h"
#include "text_tasks.h"
#include "weights.h"
#include <stdlib.h>
#include <string.h>

typedef struct eval_options {
    cli_list data;
    const char *field, *separator;
    size_t context, tokens;
    double last;
    int weights; /* cli_weights_choice */
    size_t examples;
    int tokenize; /* cli_tokenize_choice; -1: not given */
    cli_translate_options translate;
    const char *plot;
    cli_network_data network; /* of a network's examples */
    int part;
} eval_options;

typedef struct eval_job {
    cli_session *session;
    const eval_options *options;
    const char *folder;
    bo_model *model;
    bo_corpus *corpus;
    bo_evaluation result;
} eval_job;

static void print(const eval_job *job)
{
    const bo_evaluation *r = &job->result;
    printf("Loss        %.4f nats a token, %.4f bits a byte, perplexity %s\n", r->loss, r->bits_per_byte,
           cli_significant(r->perplexity, 4).s);
    printf("Tokens      %s in %s, %s tokens/s\n", cli_count(r->tokens).s, cli_seconds(r->seconds).s,
           cli_count((size_t)r->tokens_per_second).s);
    printf("State       %s\n", cli_bytes((double)r->state_bytes).s);
    if (job->options->weights)
        printf("Weights     %s, %s\n", bo_storage_name(bo_model_storage(job->model)),
               cli_bytes((double)bo_model_bytes(job->model)).s);
}

static void print_json(const eval_job *job)
{
    const bo_evaluation *r = &job->result;
    const size_t context = job->options->context;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_number(&json, "loss", r->loss);
    cli_json_number(&json, "bits_per_byte", r->bits_per_byte);
    cli_json_number(&json, "perplexity", r->perplexity);
    cli_json_count(&json, "tokens", r->tokens);
    cli_json_count(&json, "context", context ? context : bo_model_describe(job->model)->context);
    cli_json_number(&json, "seconds", r->seconds);
    cli_json_number(&json, "tokens_per_second", r->tokens_per_second);
    cli_json_count(&json, "state_bytes", r->state_bytes);
    cli_json_text(&json, "weights", bo_storage_name(bo_model_storage(job->model)));
    cli_json_count(&json, "weight_bytes", bo_model_bytes(job->model));
    cli_json_end(&json);
}

static bo_status evaluate(eval_job *job)
{
    const eval_options *o = job->options;
    bo_context *context = job->session->context;
    const bo_corpus_desc desc = {.paths = o->data.items,
                                 .path_count = o->data.count,
                                 .tokenizer = bo_model_tokenizer(job->model),
                                 .field = o->field,
                                 .separator = o->separator,
                                 .skip = o->last > 0 ? 1 - o->last : 0};
    const bo_status status = bo_corpus_open(context, &desc, &job->corpus);
    if (status != BO_OK) return status;
    cli_say(job->session, "Text        %s tokens, read in windows of %s", cli_count(bo_corpus_tokens(job->corpus)).s,
            cli_count(o->context ? o->context : bo_model_describe(job->model)->context).s);
    return bo_model_evaluate(context, job->model, job->corpus, o->context, o->tokens, &job->result);
}

/* The first option given that is about running text alone; NULL: none. */
static const char *language_option(const eval_options *o)
{
    return o->field ? "field" : o->separator ? "separator" : o->tokens ? "tokens" : NULL;
}

/* … about texts that have labels or translations alone. */
static const char *task_option(const eval_options *o)
{
    return o->examples        ? "examples"
           : o->tokenize >= 0 ? "tokenize"
           : o->plot          ? "plot"
                              : cli_translate_given(&o->translate);
}

/* … about models of text of any kind. */
static const char *text_option(const eval_options *o)
{
    const char *language = language_option(o);
    return o->last > 0  ? "last"
           : o->context ? "context"
           : o->weights ? "weights"
           : language   ? language
                        : task_option(o);
}

static int eval_language(eval_job *job)
{
    const char *foreign = task_option(job->options);
    if (foreign) return cli_wrong_task_option(job->session, foreign, job->folder, BO_MODEL_LANGUAGE);
    const bo_status status = evaluate(job);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? print_json : print)(job);
    return CLI_DONE;
}

static int eval_task(eval_job *job, bo_model_task task)
{
    const eval_options *o = job->options;
    const char *foreign = language_option(o);
    if (foreign) return cli_wrong_task_option(job->session, foreign, job->folder, task);
    const cli_eval_texts_use use = {.folder = job->folder,
                                    .data = &o->data,
                                    .last = o->last,
                                    .context = o->context,
                                    .examples = o->examples,
                                    .tokenize = o->tokenize,
                                    .translate = o->translate,
                                    .plot = o->plot};
    return cli_eval_texts(job->session, job->model, &use);
}

static int eval_model(eval_job *job)
{
    const bo_status status = cli_weights_load(job->session->context, job->folder, job->options->weights, &job->model);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    const bo_model_task task = bo_model_describe(job->model)->task;
    return task == BO_MODEL_LANGUAGE ? eval_language(job) : eval_task(job, task);
}

static int check_plot(const eval_options *o)
{
    const cli_path output = {"plot", o->plot};
    int status = CLI_DONE;
    if (o->plot && !cli_plot_known(o->plot))
        return cli_wrong_use("eval", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    for (size_t i = 0; i < o->data.count && status == CLI_DONE; i++)
        status = cli_paths_apart("eval", &output, 1, &(cli_path){"data", o->data.items[i]}, 1);
    return status;
}

static int eval(const eval_options *o, const cli_common *common, const cli_arguments *arguments)
{
    if (arguments->count != 1)
        return cli_wrong_use("eval", "expected one folder of a model, found %zu arguments", arguments->count);
    if (o->data.count == 0) return cli_wrong_use("eval", "no text to evaluate with; give --data FILE");
    const cli_network_use use = {
        .data = o->network, .folder = arguments->items[0], .path = o->data.items[0], .part = o->part};
    int checked = cli_network_use_check("eval", &use, text_option(o));
    if (checked == CLI_DONE) checked = check_plot(o);
    if (checked != CLI_DONE) return checked;
    cli_session session;
    if (!cli_session_open(&session, "eval", common, false)) return CLI_FAILED;
    if (cli_is_network(use.folder)) {
        const int done = cli_eval_network(&session, &use);
        cli_session_close(&session);
        return done;
    }
    eval_job job = {.session = &session, .options = o, .folder = use.folder};
    const int ended = eval_model(&job);
    bo_corpus_close(job.corpus);
    bo_model_destroy(job.model);
    cli_session_close(&session);
    return ended;
}

int cli_eval(int argc, char **argv)
{
    eval_options o = {.part = -1, .tokenize = -1, .translate = cli_translate_defaults()};
    cli_option translate[CLI_TRANSLATE_OPTIONS];
    cli_translate_table(&o.translate, translate);
    const cli_option own[] = {
        {CLI_SECTION, "Text", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_LIST, "data", "FILE",
         "text, or JSON lines (.jsonl); of a model of labels or translations tab-separated lines, as in training; also "
         "gzipped; may be given several times",
         &o.data, NULL, 0, 0},
        {CLI_REAL, "last", "F",
         "only this part of it, its end: what bochner train kept to test with is 0.1 (of labels and translations, "
         "whose lines are drawn: with its --seed)",
         &o.last, NULL, 0, 1},
        {CLI_TEXT, "field", "NAME", "of JSON lines: the text's name; text unless given", &o.field, NULL, 0, 0},
        {CLI_TEXT, "separator", "WORD", "of text files: ends a document; a file is a document unless given",
         &o.separator, NULL, 0, 0},
        {CLI_SECTION, "Reading", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_COUNT, "context", "N",
         "tokens of a window, each read from nothing; as in training unless given. Memory does not grow with it where "
         "the attention has features. Of labels: tokens that are read of a text",
         &o.context, NULL, 1, 0},
        {CLI_COUNT, "tokens", "N", "most tokens; all unless given", &o.tokens, NULL, 1, 0},
        {CLI_CHOICE, "weights", "HOW", "a language model's are kept in memory", &o.weights, cli_weights_choice, 0, 0},
        {CLI_SECTION, "Labels and translations", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_COUNT, "examples", "N", "most lines, drawn with --seed; all unless given", &o.examples, NULL, 1, 0},
        {CLI_TEXT, "plot", "FILE", "the confusion matrix: .svg, .png, .pdf", &o.plot, NULL, 0, 0},
        {CLI_CHOICE, "tokenize", "HOW",
         "words of BLEU: by the 13a rules, as sacreBLEU has them, or as they stand between spaces; 13a unless given",
         &o.tokenize, cli_tokenize_choice, 0, 0},
        translate[0],
        translate[1],
        {CLI_SECTION, "Networks", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_CHOICE, "part", "PART", "of a network: only these rows of --split; all unless given", &o.part,
         cli_part_choice, 0, 0},
    };
    cli_option options[CLI_COUNT_OF(own) + CLI_NETWORK_DATA];
    memcpy(options, own, sizeof own);
    const size_t count = CLI_COUNT_OF(own) + cli_network_data_table(&o.network, options + CLI_COUNT_OF(own));
    const cli_usage usage = {
        "eval",
        "DIR --data FILE [options]",
        "Measures a language model on text: mean loss, bits a byte, perplexity. DIR is the folder "
        "of a model as bochner "
        "train or Hugging Face store it. Every token but the first is predicted once, from those "
        "before it in its window. Of a model that classifies or matches texts it measures accuracy, "
        "loss and the confusion of classes, of one that translates BLEU, loss and perplexity. Where DIR holds a "
        "network, FILE is a table of examples, and loss "
        "and accuracy or error are measured.",
        "  bochner eval model --data text.txt --last 0.1\n"
        "  bochner eval model --data text.txt --context 16384 --json\n"
        "  bochner eval reviews --data reviews.tsv --last 0.1\n"
        "  bochner eval german --data pairs.tsv --beam 4 --examples 20\n",
        options,
        count};
    cli_common common = {0};
    cli_arguments arguments = {0};
    const cli_parsed parsed = cli_parse(&usage, argc, argv, &common, &arguments);
    const int status = parsed == CLI_PARSED       ? eval(&o, &common, &arguments)
                       : parsed == CLI_HELP_SHOWN ? CLI_DONE
                                                  : CLI_WRONG_USE;
    free(arguments.items);
    return status;
}
