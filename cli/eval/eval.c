/* bochner eval: measures a model on text, labeled texts or translations, or a network on examples. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../common/metrics.h"
#include "../common/paths.h"
#include "../common/plot.h"
#include "../common/output.h"
#include "eval_ids.h"
#include "../model/extrapolation.h"
#include "../network/network.h"
#include "../text/text_tasks.h"
#include <math.h>

typedef struct eval_options {
    cli_given was_given;
    cli_list data;
    const char *field, *separator;
    size_t context, tokens;
    bool stateful;
    double last;
    bo_storage weights;
    const char *device;
    bo_precision precision;
    size_t examples;
    unsigned tokenize; /* index of tokenizations */
    cli_translate_options translate;
    const char *plot;
    cli_eval_ids_use ids;
    cli_network_data network;
} eval_options;

typedef struct eval_job {
    cli_session *session;
    const eval_options *options;
    const char *directory;
    bo_model *model;
    const bo_model_desc *desc;
    bo_corpus *corpus;         /* of a language model */
    bo_evaluation result;      /* of a language model */
    bo_evaluation unquantized; /* the evaluation in float32, if the weights are stored in fewer bits */
    bo_texts *texts;           /* of a model with another task */
} eval_job;

static const char *const tokenizations[] = {"13a", "none"};

static const char *tokenization_name(unsigned index)
{
    return index < CLI_COUNT_OF(tokenizations) ? tokenizations[index] : NULL;
}

/* The first given option that applies to language models only; NULL: none. */
static const char *language_option(const eval_options *o)
{
    return o->ids.ids             ? "ids"
           : o->ids.logits        ? "logits-out"
           : o->field             ? "field"
           : o->separator         ? "separator"
           : o->stateful          ? "stateful"
           : CLI_GIVEN(o, tokens) ? "tokens"
                                  : NULL;
}

/* The same for options about a text, which do not apply to ids. */
static const char *corpus_option(const eval_options *o)
{
    return o->data.count           ? "data"
           : o->field              ? "field"
           : o->separator          ? "separator"
           : o->stateful           ? "stateful"
           : CLI_GIVEN(o, tokens)  ? "tokens"
           : CLI_GIVEN(o, context) ? "context"
           : CLI_GIVEN(o, last)    ? "last"
                                   : NULL;
}

/* The same for options of classify and match only, and of translate only. */
static const char *label_option(const eval_options *o)
{
    return o->plot ? "plot" : CLI_GIVEN(o, context) ? "context" : NULL;
}

static const char *translation_option(const eval_options *o)
{
    return CLI_GIVEN(o, tokenize) ? "tokenize" : cli_translate_given(&o->translate);
}

/* The same for options of classify, match and translate. */
static const char *task_option(const eval_options *o)
{
    return CLI_GIVEN(o, examples) ? "examples" : o->plot ? "plot" : translation_option(o);
}

/* The same for options of all text models. */
static const char *text_option(const eval_options *o)
{
    const char *language = language_option(o);
    return CLI_GIVEN(o, last)      ? "last"
           : CLI_GIVEN(o, context) ? "context"
           : CLI_GIVEN(o, weights) ? "weights"
           : language              ? language
                                   : task_option(o);
}

/* ---- a language model -------------------------------------------------------------------------------------------- */

/* The relative increase of the perplexity caused by low-precision weights. */
static double cost_of(const eval_job *job)
{
    return job->result.perplexity / job->unquantized.perplexity - 1;
}

static void print_language(const eval_job *job)
{
    const bo_evaluation *r = &job->result;
    printf("Loss        %.4f nats per token, ", r->loss);
    if (!isnan(r->bits_per_byte)) printf("%.4f bits per byte, ", r->bits_per_byte); /* no byte was predicted */
    printf("perplexity %s\n", cli_significant(r->perplexity, 4).s);
    printf("Tokens      %s in %s, %s tokens per second\n", cli_count(r->tokens).s, cli_seconds(r->seconds).s,
           cli_count((size_t)r->tokens_per_second).s);
    printf("State       %s per sequence\n", cli_bytes((double)r->state_bytes).s);
    if (!job->options->weights) return;
    printf("Weights     %s, %s\n", bo_enum_name(BO_ENUM_STORAGE, bo_model_report(job->model)->storage),
           cli_bytes((double)bo_model_report(job->model)->bytes).s);
    printf("Cost        perplexity %s with float32 weights: %+.2f%%\n",
           cli_significant(job->unquantized.perplexity, 4).s, 100 * cost_of(job));
}

/* Tokens to read. */
static uint64_t tokens_of(const eval_job *job)
{
    const uint64_t all = bo_corpus_tokens(job->corpus), limit = job->options->tokens;
    return limit && limit < all ? limit : all;
}

/* Tokens per window. With --stateful, the text is one window. */
static uint64_t window_of(const eval_job *job)
{
    if (job->options->stateful) return tokens_of(job);
    if (job->options->context) return job->options->context;
    return job->desc->context < CLI_DEFAULT_MAX_CONTEXT ? job->desc->context : CLI_DEFAULT_MAX_CONTEXT;
}

/* Tokens of the longest window: the text may be shorter. */
static uint64_t longest_window(const eval_job *job)
{
    const uint64_t window = window_of(job), read = tokens_of(job);
    return window < read ? window : read;
}

static void json_language(const eval_job *job)
{
    const bo_evaluation *r = &job->result;
    const uint64_t context = window_of(job);
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_number(&json, "loss", r->loss);
    cli_json_add_number(&json, "bits_per_byte", r->bits_per_byte);
    cli_json_add_number(&json, "perplexity", r->perplexity);
    cli_json_add_count(&json, "tokens", r->tokens);
    cli_json_add_count(&json, "context", context);
    cli_json_add_count(&json, "trained_context", job->desc->context);
    cli_json_add_number(&json, "seconds", r->seconds);
    cli_json_add_number(&json, "tokens_per_second", r->tokens_per_second);
    cli_json_add_count(&json, "state_bytes", r->state_bytes);
    cli_json_add_text(&json, "device", bo_context_describe(job->session->context)->device);
    cli_json_add_text(&json, "precision",
                      bo_enum_name(BO_ENUM_PRECISION, bo_context_describe(job->session->context)->precision));
    cli_json_add_text(&json, "weights", bo_enum_name(BO_ENUM_STORAGE, bo_model_report(job->model)->storage));
    cli_json_add_count(&json, "weight_bytes", bo_model_report(job->model)->bytes);
    if (job->options->weights) {
        cli_json_add_number(&json, "float32_perplexity", job->unquantized.perplexity);
        cli_json_add_number(&json, "perplexity_cost", cost_of(job));
    }
    cli_json_end(&json);
}

static bo_status evaluate_corpus(eval_job *job, bo_evaluation *out)
{
    return bo_model_evaluate(job->session->context, job->model, job->corpus, (size_t)window_of(job),
                             job->options->tokens, out);
}

/* Evaluates the model with the chosen storage of its weights, and before that in float32. */
static bo_status evaluate_weights(eval_job *job)
{
    bo_status status = job->options->weights ? evaluate_corpus(job, &job->unquantized) : BO_OK;
    if (status == BO_OK) status = bo_model_set_storage(job->session->context, job->model, job->options->weights);
    return status == BO_OK ? evaluate_corpus(job, &job->result) : status;
}

static bo_status evaluate_language(eval_job *job)
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
    cli_note(job->session, "Text        %s tokens, in windows of %s tokens", cli_count(bo_corpus_tokens(job->corpus)).s,
             cli_count((size_t)window_of(job)).s);
    if (!o->stateful) cli_report_extrapolation(job->session, job->model, longest_window(job));
    return evaluate_weights(job);
}

static int eval_ids(eval_job *job)
{
    const bo_status status = bo_model_set_storage(job->session->context, job->model, job->options->weights);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    return cli_eval_ids(job->session, job->model, &job->options->ids);
}

static int eval_language(eval_job *job)
{
    const char *foreign = task_option(job->options);
    if (foreign) return cli_task_usage_error(job->session, foreign, job->directory, BO_MODEL_TASK_LANGUAGE);
    if (job->options->ids.ids) return eval_ids(job);
    if (!bo_model_tokenizer(job->model))
        return cli_fail(job->session, "%s: no tokenizer.json, which is needed to read text; give --ids IDS.npy",
                        job->directory);
    const bo_status status = evaluate_language(job);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? json_language : print_language)(job);
    return CLI_DONE;
}

/* ---- classify, match and translate ------------------------------------------------------------------------------- */

static void print_rate(const eval_job *job, uint64_t examples, uint64_t tokens, double seconds)
{
    const double rate = seconds > 0 ? (double)tokens / seconds : 0;
    const char *what = job->desc->task == BO_MODEL_TASK_CLASSIFY ? "text" : "pair";
    printf("Texts       %s %s%s, %s tokens in %s, %s tokens per second\n", cli_count(examples).s, what,
           examples == 1 ? "" : "s", cli_count(tokens).s, cli_seconds(seconds).s, cli_count((size_t)rate).s);
}

static void json_rate(cli_json *json, uint64_t examples, uint64_t tokens, double seconds)
{
    cli_json_add_count(json, "examples", examples);
    cli_json_add_count(json, "tokens", tokens);
    cli_json_add_number(json, "seconds", seconds);
    cli_json_add_number(json, "tokens_per_second", seconds > 0 ? (double)tokens / seconds : 0);
}

static void json_begin(const eval_job *job, cli_json *json)
{
    *json = (cli_json){.out = stdout};
    cli_json_object(json, NULL);
    cli_json_add_text(json, "task", bo_enum_name(BO_ENUM_MODEL_TASK, job->desc->task));
}

/* ---- classify and match ------------------------------------------------------------------------------------------ */

static void print_labels(const eval_job *job, const bo_classification *found, const bo_metrics *metrics)
{
    printf("Accuracy    %.2f%%\n", 100 * found->accuracy);
    printf("Loss        %.4f nats per %s\n", found->loss, job->desc->task == BO_MODEL_TASK_CLASSIFY ? "text" : "pair");
    print_rate(job, found->examples, found->tokens, found->seconds);
    cli_metrics_print_confusion(metrics, NULL, stdout);
}

static void json_labels(const eval_job *job, const bo_classification *found, const bo_metrics *metrics)
{
    cli_json json;
    json_begin(job, &json);
    cli_json_add_number(&json, "accuracy", found->accuracy);
    cli_json_add_number(&json, "loss", found->loss);
    json_rate(&json, found->examples, found->tokens, found->seconds);
    cli_json_add_count(&json, "cut", bo_texts_describe(job->texts)->truncated);
    cli_metrics_json_confusion(metrics, NULL, &json);
    cli_json_end(&json);
}

static int evaluate_labels(const eval_job *job)
{
    bo_classification found;
    bo_metrics *metrics;
    const bo_status status = bo_model_evaluate_labels(job->session->context, job->model, job->texts,
                                                      job->options->examples, &found, &metrics);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? json_labels : print_labels)(job, &found, metrics);
    const int ended =
        job->options->plot ? cli_plot(job->session, metrics, NULL, CLI_PLOT_CONFUSION, job->options->plot) : CLI_DONE;
    bo_metrics_destroy(metrics);
    return ended;
}

/* ---- translate --------------------------------------------------------------------------------------------------- */

static size_t beam_of(const eval_job *job)
{
    return job->options->translate.beam ? job->options->translate.beam : 1;
}

static void print_translation(const eval_job *job, const bo_translation *found)
{
    const bo_bleu *b = &found->bleu;
    printf("BLEU        %.2f (%s, beam %zu; n-grams %.1f/%.1f/%.1f/%.1f, brevity penalty %.3f, length %s of %s)\n",
           b->score, tokenizations[job->options->tokenize], beam_of(job), b->precisions[0], b->precisions[1],
           b->precisions[2], b->precisions[3], b->brevity_penalty, cli_count(b->length).s,
           cli_count(b->reference_length).s);
    printf("Loss        %.4f nats per target token, perplexity %s\n", found->loss,
           cli_significant(found->perplexity, 4).s);
    print_rate(job, found->examples, found->tokens, found->seconds);
    printf("State       %s per hypothesis\n", cli_bytes((double)found->state_bytes).s);
}

static void json_translation(const eval_job *job, const bo_translation *found)
{
    const bo_bleu *b = &found->bleu;
    cli_json json;
    json_begin(job, &json);
    cli_json_add_number(&json, "bleu", b->score);
    cli_json_array(&json, "precisions");
    for (size_t i = 0; i < CLI_COUNT_OF(b->precisions); i++) cli_json_add_number(&json, NULL, b->precisions[i]);
    cli_json_end(&json);
    cli_json_add_number(&json, "brevity_penalty", b->brevity_penalty);
    cli_json_add_count(&json, "length", b->length);
    cli_json_add_count(&json, "reference_length", b->reference_length);
    cli_json_add_text(&json, "tokenize", tokenizations[job->options->tokenize]);
    cli_json_add_count(&json, "beam", beam_of(job));
    cli_json_add_number(&json, "loss", found->loss);
    cli_json_add_number(&json, "perplexity", found->perplexity);
    json_rate(&json, found->examples, found->tokens, found->seconds);
    cli_json_add_count(&json, "state_bytes", found->state_bytes);
    cli_json_end(&json);
}

static int evaluate_translation(const eval_job *job)
{
    const eval_options *o = job->options;
    const bo_translate_desc desc = cli_translate_desc(&o->translate);
    bo_translation found = {0};
    const bo_status status = bo_model_evaluate_translation(job->session->context, job->model, job->texts, o->examples,
                                                           &desc, o->tokenize == 0, true, &found);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? json_translation : print_translation)(job, &found);
    return CLI_DONE;
}

/* ---- all tasks but language -------------------------------------------------------------------------------------- */

static size_t longest_text(const bo_texts *texts)
{
    const bool two = bo_texts_describe(texts)->kind == BO_TEXTS_LABELED_PAIR;
    const size_t first = bo_texts_describe(texts)->longest[0], second = two ? bo_texts_describe(texts)->longest[1] : 0;
    return first > second ? first : second;
}

static int eval_texts(eval_job *job)
{
    const eval_options *o = job->options;
    cli_session *session = job->session;
    const bool translates = job->desc->task == BO_MODEL_TASK_TRANSLATE;
    const char *foreign = language_option(o);
    if (!foreign) foreign = translates ? label_option(o) : translation_option(o);
    if (foreign) return cli_task_usage_error(session, foreign, job->directory, job->desc->task);
    bo_texts_desc desc = cli_texts_desc(job->model, false, o->context);
    desc.paths = o->data.items;
    desc.path_count = o->data.count;
    desc.skip = o->last > 0 ? 1 - o->last : 0;
    desc.take = o->examples && desc.skip == 0 ? 1 : 0; /* a random part, because files are often sorted by class */
    desc.seed = session->common.seed;
    const bo_status status = bo_texts_open(session->context, &desc, &job->texts);
    if (status != BO_OK) return cli_fail_status(session, status);
    cli_texts_report_truncated(session, bo_texts_describe(job->texts)->truncated, job->model, &desc);
    if (!translates) cli_report_extrapolation(session, job->model, longest_text(job->texts));
    return translates ? evaluate_translation(job) : evaluate_labels(job);
}

/* ---- a network --------------------------------------------------------------------------------------------------- */

static void json_network(const bo_model *network, const bo_examples_evaluation *found)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "loss_kind", bo_model_report(network)->network->loss);
    cli_json_add_number(&json, "loss", found->loss);
    if (!isnan(found->accuracy)) cli_json_add_number(&json, "accuracy", found->accuracy);
    if (!isnan(found->rmse)) cli_json_add_number(&json, "rmse", found->rmse);
    cli_json_add_count(&json, "examples", (size_t)found->examples);
    cli_json_add_number(&json, "seconds", found->seconds);
    cli_json_end(&json);
}

static void print_network(const bo_model *network, const bo_examples_evaluation *found)
{
    printf("Loss        %.5g (%s)\n", found->loss, bo_model_report(network)->network->loss);
    if (!isnan(found->accuracy))
        printf("Accuracy    %.2f%%\n", 100 * found->accuracy);
    else
        printf("RMSE        %.5g\n", found->rmse);
    printf("Examples    %s in %s\n", cli_count((size_t)found->examples).s, cli_seconds(found->seconds).s);
}

static int evaluate_network(cli_session *session, const cli_network_use *use, const bo_model *network)
{
    bo_examples *examples;
    bo_examples_evaluation found;
    const cli_network_source source = {.path = use->path, .data = &use->data, .network = network};
    if (!cli_network_examples(session, &source, &examples)) return CLI_FAILED;
    const bo_split part = cli_network_part(&use->data);
    const bo_status status = bo_model_evaluate_examples(session->context, network, examples, part, &found);
    cli_progress_clear(&session->progress);
    bo_examples_destroy(examples);
    if (status != BO_OK) return cli_fail_status(session, status);
    (session->common.json ? json_network : print_network)(network, &found);
    return CLI_DONE;
}

static int eval_network(cli_session *session, const cli_network_use *use)
{
    bo_model *network;
    const bo_status status = bo_model_load(session->context, &(bo_source){.path = use->directory}, NULL, &network);
    if (status != BO_OK) return cli_fail_status(session, status);
    const int ended = evaluate_network(session, use, network);
    bo_model_destroy(network);
    return ended;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int eval_model(eval_job *job)
{
    bo_status status = bo_model_load(job->session->context, &(bo_source){.path = job->directory}, NULL, &job->model);
    if (status != BO_OK) return cli_fail_model(job->session, job->directory, status);
    job->desc = bo_model_describe(job->model);
    if (job->desc->task == BO_MODEL_TASK_LANGUAGE) return eval_language(job);
    status = bo_model_set_storage(job->session->context, job->model, job->options->weights);
    return status == BO_OK ? eval_texts(job) : cli_fail_status(job->session, status);
}

static int check_plot(const eval_options *o)
{
    const cli_path output = {"plot", o->plot};
    int status = CLI_DONE;
    if (o->plot && !cli_plot_known(o->plot))
        return cli_usage_error("eval", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    for (size_t i = 0; i < o->data.count && status == CLI_DONE; i++)
        status = cli_paths_apart("eval", &output, 1, &(cli_path){"data", o->data.items[i]}, 1);
    return status;
}

static int check_ids(const eval_options *o)
{
    const char *ids = o->ids.ids, *logits = o->ids.logits, *foreign = ids ? corpus_option(o) : NULL;
    if (foreign) return cli_usage_error("eval", "--ids gives the tokens; leave out --%s", foreign);
    if (logits && !ids) return cli_usage_error("eval", "--logits-out needs --ids IDS.npy");
    if (logits && !cli_ends_with(logits, ".npy"))
        return cli_usage_error("eval", "--logits-out: expected a file name that ends in .npy, found '%s'", logits);
    return logits ? cli_paths_apart("eval", &(cli_path){"logits-out", logits}, 1, &(cli_path){"ids", ids}, 1)
                  : CLI_DONE;
}

static int eval(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const eval_options *o = options;
    if (arguments->count != 1)
        return cli_usage_error("eval", "expected one model directory, found %zu arguments", arguments->count);
    if (o->data.count == 0 && !o->ids.ids) return cli_usage_error("eval", "no data; give --data FILE or --ids IDS.npy");
    if (o->stateful && CLI_GIVEN(o, context)) return cli_usage_error("eval", "give --stateful or --context, not both");
    const cli_network_use use = {
        .data = o->network, .directory = arguments->items[0], .path = o->data.count ? o->data.items[0] : NULL};
    int checked = cli_network_use_check("eval", &use, text_option(o));
    if (checked == CLI_DONE) checked = check_plot(o);
    if (checked == CLI_DONE) checked = check_ids(o);
    if (checked != CLI_DONE) return checked;
    cli_session session;
    if (!cli_session_open_in(&session, "eval", common, false, CLI_COMPUTE(o))) return CLI_FAILED;
    if (cli_is_network(use.directory)) {
        const int done = eval_network(&session, &use);
        cli_session_close(&session);
        return done;
    }
    eval_job job = {.session = &session, .options = o, .directory = use.directory};
    const int ended = eval_model(&job);
    bo_texts_close(job.texts);
    bo_corpus_close(job.corpus);
    bo_model_destroy(job.model);
    cli_session_close(&session);
    return ended;
}

static const cli_option rows[] = {
    SECTION("Data"),
    LIST("data", "FILE", eval_options, data,
         "text or JSON lines (.jsonl); for classify, match and translate tab-separated lines as in training; may be "
         "gzipped, and given several times"),
    REAL("last", "F", eval_options, last,
         "evaluate on the last fraction F of the text; bochner train uses the last 0.1 for validation. For classify, "
         "match and translate, a random fraction of the lines, chosen by --seed",
         .high = 1, .default_text = "all"),
    TEXT("field", "NAME", eval_options, field, "for JSON lines: name of the field with the text",
         .default_text = "text"),
    TEXT("separator", "TEXT", eval_options, separator, "for text files: text that ends a document",
         .default_text = "one document per file"),
    TEXT("ids", "IDS.npy", eval_options, ids.ids,
         "for language models, instead of --data: token ids of shape (tokens) or (batch, tokens)"),
    TEXT("logits-out", "L.npy", eval_options, ids.logits,
         "with --ids: write the logits after every token, float32 of shape (tokens, vocabulary) or (batch, tokens, "
         "vocabulary)"),
    SECTION("Evaluation"),
    COUNT("context", "N", eval_options, context,
          "tokens per window; each window starts with an empty state. For classify and match: maximum tokens per text; "
          "longer texts are truncated",
          .low = 1, .default_text = "as in training, for language models at most " CLI_DIGITS(CLI_DEFAULT_MAX_CONTEXT)),
    FLAG("stateful", eval_options, stateful,
         "carry the state through the whole text, as in bochner train --stateful: the text is one window"),
    COUNT("tokens", "N", eval_options, tokens, "maximum number of tokens", .low = 1, .default_text = "all"),
    DEVICE(eval_options),
    PRECISION(eval_options, .traits = 0),
    CHOICE("weights", "HOW", eval_options, weights, BO_ENUM_STORAGE,
           "storage of the weights in memory; for language models, the text is also evaluated with float32 weights and "
           "the increase of the perplexity is reported",
           .without = 1u << BO_STORAGE_FLOAT8, .initial = "float32"),
    SECTION("Classify, match and translate"),
    COUNT("examples", "N", eval_options, examples, "maximum number of lines, chosen by --seed", .low = 1,
          .default_text = "all"),
    TEXT("plot", "FILE", eval_options, plot, "draw the confusion matrix: .svg, .png or .pdf"),
    CHOICE_OF("tokenize", "HOW", eval_options, tokenize, tokenization_name,
              "tokenization for BLEU; 13a: as in sacreBLEU, none: words are separated by spaces", .initial = "13a"),
    END_OF_OPTIONS,
};

const cli_usage cli_eval_usage = {
    .command = "eval",
    .synopsis = "DIR --data FILE [options]   or   DIR --ids IDS.npy [--logits-out L.npy]",
    .about =
        "Measures a model on data. DIR is a directory written by bochner train, a Hugging Face model directory, or a "
        "model in one "
        ".safetensors file. For a language model, it reports loss, bits per byte and perplexity; each token except "
        "the first is predicted once, from the tokens before it in its window. For a model that classifies or "
        "matches texts, it reports accuracy, loss and the confusion matrix; for a model that translates, BLEU, loss "
        "and perplexity. For a network, FILE is a table of examples, and it reports loss and accuracy or RMSE.",
    .examples = "  bochner eval model --data text.txt --last 0.1\n"
                "  bochner eval model --data text.txt --context 16384 --json\n"
                "  bochner eval model --data text.txt --weights int8\n"
                "  bochner eval reviews --data reviews.tsv --last 0.1\n"
                "  bochner eval german --data german-english.tsv --beam 4 --examples 20\n",
    .groups = {{rows, 0},
               {cli_translate_rows, offsetof(eval_options, translate)},
               {cli_network_part_rows, offsetof(eval_options, network)},
               {cli_network_column_rows, offsetof(eval_options, network)},
               {cli_network_graph_rows, offsetof(eval_options, network)}},
    .short_help = {"data", "last", "ids", "logits-out", "context", "tokens", "weights", "device", "examples", "beam",
                   "plot", "json"},
};

int cli_eval(int argc, char **argv)
{
    eval_options o = {0};
    return cli_command(&cli_eval_usage, argc, argv, &o, eval);
}
