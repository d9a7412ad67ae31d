/* bochner generate: continues or translates text with a model. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../model/extrapolation.h"
#include "../text/ids.h"
#include "sampling.h"
#include "../network/network.h"
#include "../common/output.h"
#include "../common/streams.h"
#include "../text/text_tasks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct generate_options {
    cli_given was_given;
    const char *prompt, *ids, *save, *load;
    cli_list stops;
    size_t tokens, context;
    bool echo, ignore_end;
    cli_sampling_options sampling;
    cli_translate_options translate;
    bo_storage weights;
    const char *device;
    bo_precision precision;
} generate_options;

typedef struct generate_job {
    cli_session *session;
    const generate_options *options;
    bo_model *model;
    const bo_tokenizer *tokenizer;
    const char *directory;
    void *input;      /* the prompt, if it was read from standard input; otherwise NULL */
    const char *echo; /* the prompt, if it is printed */
    size_t echo_length;
    bo_ids encoded; /* the tokens of the prompt, */
    cli_ids given;  /* or those of --ids */
    const int32_t *prompt;
    size_t prompt_count;
    int32_t *ids; /* the generated tokens */
    size_t ids_capacity;
    bo_session *reader;
    FILE *out;  /* the text is printed here, */
    char *text; /* or with --json collected */
    size_t text_length, text_capacity;
    size_t tokens, made, state_bytes; /* tokens: the maximum */
    double start, prompt_seconds, seconds;
    bool extrapolates;  /* an input longer than the training context was reported */
    const char *reason; /* reason of the end: "length", "stop", "end" or "context" */
} generate_job;

static const char FULL[] = "context";

static bool ok(generate_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

static bool read_ids(generate_job *job)
{
    const char *path = job->options->ids;
    if (!cli_ids_load(job->session, path, bo_model_describe(job->model)->vocab, &job->given)) return false;
    if (job->given.sequences == 1) return true;
    cli_fail(job->session, "%s: expected one sequence of ids, found %zu", path, job->given.sequences);
    return false;
}

static bool read_text(generate_job *job)
{
    enum { MAX_INPUT_BYTES = 1 << 30 }; /* bytes of standard input */
    const char *prompt = job->options->prompt;
    size_t length = prompt ? strlen(prompt) : 0;
    if (!job->tokenizer) {
        cli_fail(job->session, "%s: no tokenizer.json, which is needed to read text; give --ids IDS.npy",
                 job->directory);
        return false;
    }
    if (prompt && strcmp(prompt, "-") == 0) {
        if (!ok(job, bo_file_load(job->session->context, "-", MAX_INPUT_BYTES, &job->input, &length))) return false;
        prompt = job->input;
    }
    if (job->options->echo && length > 0) {
        job->echo = prompt;
        job->echo_length = length;
        if (job->out) fwrite(prompt, 1, length, job->out);
    }
    bo_context *context = job->session->context;
    const bo_status status =
        bo_tokenizer_encode(context, job->tokenizer, prompt, length,
                            job->options->load ? BO_ENCODE_SPECIALS : BO_ENCODE_PROMPT, &job->encoded);
    if (status != BO_INVALID) return ok(job, status);
    cli_fail(job->session, "%s; give --prompt TEXT", bo_context_error(context));
    return false;
}

static bool read_prompt(generate_job *job)
{
    const bool ids = job->options->ids;
    if (!(ids ? read_ids : read_text)(job)) return false;
    job->prompt = ids ? job->given.items : job->encoded.items;
    job->prompt_count = ids ? job->given.tokens : job->encoded.count;
    return true;
}

/* ---- reading and sampling ---------------------------------------------------------------------------------------- */

/* The capacity of a KV cache covers all tokens read so far and later. */
static bool open_reader(generate_job *job)
{
    const generate_options *o = job->options;
    bo_context *context = job->session->context;
    uint64_t before = 0;
    if (o->load && !ok(job, bo_session_peek(context, &(bo_source){.path = o->load}, &before))) return false;
    const uint64_t needed = before + job->prompt_count;
    if (o->context && needed > o->context) {
        cli_fail(job->session, "--context %zu: the prompt%s has %s tokens", o->context,
                 o->load ? " and the loaded state" : "", cli_count(needed).s);
        return false;
    }
    const bo_model_desc *model = bo_model_describe(job->model);
    if (o->context > model->context && model->block.positions == BO_POSITIONS_LEARNED) {
        cli_fail(job->session, "--context %zu: the model has only %zu positions", o->context, model->context);
        return false;
    }
    const size_t max_length = (size_t)needed + job->tokens;
    const bo_session_desc desc = {.capacity = o->context && o->context < max_length ? o->context : max_length};
    size_t all = 0;
    if (!ok(job, bo_session_estimate(context, job->model, &desc, &job->state_bytes, &all))) return false;
    if (!ok(job, bo_session_create(context, job->model, &desc, &job->reader))) return false;
    job->extrapolates = cli_report_extrapolation(job->session, job->model, o->context ? o->context : needed);
    return !o->load || ok(job, bo_session_load(context, job->reader, &(bo_source){.path = o->load}));
}

static void keep_id(generate_job *job, int32_t id)
{
    if (job->made == job->ids_capacity) {
        job->ids_capacity = 2 * job->ids_capacity + 256;
        int32_t *larger = cli_allocate(job->ids_capacity, sizeof *larger, "tokens");
        if (job->made) memcpy(larger, job->ids, job->made * sizeof *larger);
        free(job->ids);
        job->ids = larger;
    }
    job->ids[job->made++] = id;
}

static void keep_text(generate_job *job, const char *text, size_t bytes)
{
    if (job->text_capacity - job->text_length < bytes) {
        job->text_capacity = 2 * job->text_capacity + bytes + 256;
        char *larger = cli_allocate(job->text_capacity, 1, "text");
        if (job->text_length) memcpy(larger, job->text, job->text_length);
        free(job->text);
        job->text = larger;
    }
    if (bytes) memcpy(job->text + job->text_length, text, bytes);
    job->text_length += bytes;
}

static bool append_token(void *user, const bo_token *token)
{
    static const char *const reasons[] = {NULL, "end", "stop", "length", FULL, "canceled"};
    generate_job *job = user;
    if (token->index == 0) {
        cli_progress_clear(&job->session->progress);
        job->prompt_seconds = cli_now() - job->start;
    }
    if (token->id >= 0) keep_id(job, token->id);
    if (token->id >= 0 && job->out) job->session->generated++;
    if (!job->out) {
        keep_text(job, token->text, token->bytes);
    } else if (token->bytes) {
        fwrite(token->text, 1, token->bytes, job->out);
        cli_streams_flush();
    }
    if (token->end != BO_GENERATE_CONTINUES) job->reason = reasons[token->end];
    return !cli_interrupted();
}

/* Reads the prompt alone. */
static bool read_prompt_only(generate_job *job)
{
    const bo_status status = bo_session_feed(job->session->context, job->reader, job->prompt, job->prompt_count, NULL);
    job->prompt_seconds = cli_now() - job->start;
    return ok(job, status);
}

/* If the state is saved, the last token is read as well. */
static bool generate_tokens(generate_job *job)
{
    const generate_options *o = job->options;
    const bo_generate_desc desc = {.ids = job->prompt,
                                   .id_count = job->prompt_count,
                                   .max_tokens = job->tokens,
                                   .sampling = cli_sampling_desc(&o->sampling, job->session->common.seed),
                                   .stops = o->stops.items,
                                   .stop_count = o->stops.count,
                                   .session = job->reader,
                                   .context = o->context,
                                   .ignore_end = o->ignore_end,
                                   .keep_bytes = true,
                                   .leave_last = !o->save};
    job->start = cli_now();
    if (job->tokens == 0) return read_prompt_only(job);
    const bo_status status = bo_generate(job->session->context, job->model, &desc, append_token, job);
    job->seconds = cli_now() - job->start - job->prompt_seconds;
    return ok(job, status);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static double rate(size_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : NAN;
}

/* A byte-level model may generate invalid UTF-8, which JSON does not allow. */
static char *printable(const char *text, size_t length)
{
    char *out = cli_allocate(3 * length + 1, 1, "text"), *to = out;
    for (size_t i = 0; i < length;) {
        const size_t char_bytes = bo_utf8_length(text + i, length - i);
        memcpy(to, char_bytes ? text + i : "\xef\xbf\xbd", char_bytes ? char_bytes : 3);
        to += char_bytes ? char_bytes : 3;
        i += char_bytes ? char_bytes : 1;
    }
    return out;
}

static void print_json(const generate_job *job)
{
    cli_json json = {.out = stdout};
    char *all = cli_allocate(job->echo_length + job->text_length + 1, 1, "text");
    if (job->echo_length) memcpy(all, job->echo, job->echo_length);
    if (job->text_length) memcpy(all + job->echo_length, job->text, job->text_length);
    char *text = printable(all, job->echo_length + job->text_length);
    cli_json_object(&json, NULL);
    if (job->tokenizer) cli_json_add_text(&json, "text", text);
    cli_json_array(&json, "ids");
    for (size_t i = 0; i < job->made; i++) cli_json_add_count(&json, NULL, (size_t)job->ids[i]);
    cli_json_end(&json);
    cli_json_add_count(&json, "prompt_tokens", job->prompt_count);
    cli_json_add_count(&json, "tokens", job->made);
    cli_json_add_number(&json, "prompt_tokens_per_second", rate(job->prompt_count, job->prompt_seconds));
    cli_json_add_text(&json, "device", bo_context_describe(job->session->context)->device);
    cli_json_add_text(&json, "precision",
                      bo_enum_name(BO_ENUM_PRECISION, bo_context_describe(job->session->context)->precision));
    cli_json_add_number(&json, "tokens_per_second", rate(job->made, job->seconds));
    cli_json_add_count(&json, "state_bytes", job->state_bytes);
    cli_json_add_text(&json, "finish_reason", job->reason);
    cli_json_end(&json);
    free(text);
    free(all);
}

static void print_ids(const generate_job *job)
{
    for (size_t i = 0; i < job->made; i++) printf("%s%d", i ? " " : "", (int)job->ids[i]);
    putchar('\n');
}

static bool finish(generate_job *job)
{
    const generate_options *o = job->options;
    if (job->session->common.json)
        print_json(job);
    else if (job->tokenizer)
        putchar('\n');
    else
        print_ids(job);
    cli_streams_flush(); /* before the messages below on standard error */
    if (job->reason == FULL)
        cli_warn(job->session, "the text ends because the context is full: %s reads at most %s tokens",
                 o->context ? "--context" : "this model", cli_count(bo_session_tokens(job->reader)).s);
    if (!job->extrapolates) cli_report_extrapolation(job->session, job->model, bo_session_tokens(job->reader));
    if (o->save &&
        !ok(job, cli_record_output(job->session, o->save,
                                   bo_session_save(job->session->context, job->reader, &(bo_sink){.path = o->save}))))
        return false;
    if (job->made == 0) return true;
    cli_note(job->session, "%s tokens, %s tokens per second; state %s", cli_count(job->made).s,
             cli_count((size_t)fmax(rate(job->made, job->seconds), 0)).s, cli_bytes((double)job->state_bytes).s);
    return true;
}

/* Only a state or an empty file may be replaced. */
static bool can_keep(generate_job *job)
{
    const char *path = job->options->save;
    struct stat info;
    uint64_t tokens;
    if (!path) return true;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
        bo_session_peek(job->session->context, &(bo_source){.path = path}, &tokens) != BO_OK) {
        cli_fail(job->session, "--save-state %s: the file exists and is not a saved state; give another name", path);
        return false;
    }
    return cli_can_write(job->session, path);
}

/* Checks option values before anything is loaded. */
static bool check_sampling(generate_job *job)
{
    bo_sampler *sampler;
    const bo_sampler_desc desc = cli_sampling_desc(&job->options->sampling, job->session->common.seed);
    const bool done = ok(job, bo_sampler_create(job->session->context, &desc, &sampler));
    bo_sampler_destroy(sampler);
    return done;
}

static bool open_model(generate_job *job, const char *directory)
{
    bo_context *context = job->session->context;
    if (!can_keep(job) || !cli_is_no_network(job->session, directory)) return false;
    if (!check_sampling(job)) return false;
    const bo_status status = bo_model_load(context, &(bo_source){.path = directory},
                                           &(bo_model_load_desc){.storage = job->options->weights}, &job->model);
    if (status != BO_OK) return cli_fail_model(job->session, directory, status), false;
    job->tokenizer = bo_model_tokenizer(job->model);
    job->directory = directory;
    return true;
}

/* The first given option that does not apply to translation; NULL: none. */
static const char *language_option(const generate_options *o)
{
    return o->echo          ? "echo"
           : o->ignore_end  ? "ignore-end"
           : o->ids         ? "ids"
           : o->context     ? "context"
           : o->stops.count ? "stop"
           : o->save        ? "save-state"
           : o->load        ? "load-state"
                            : cli_sampling_given(&o->sampling);
}

static int translate(generate_job *job, const char *directory)
{
    const generate_options *o = job->options;
    const cli_generate_use use = {
        .directory = directory, .prompt = o->prompt, .tokens = o->tokens, .translate = o->translate};
    const char *foreign = language_option(o);
    if (foreign) return cli_task_usage_error(job->session, foreign, directory, BO_MODEL_TASK_TRANSLATE);
    return cli_generate_translate(job->session, job->model, &use);
}

static bool continue_text(generate_job *job)
{
    job->tokens = CLI_GIVEN(job->options, tokens) ? job->options->tokens : 256;
    return read_prompt(job) && open_reader(job) && generate_tokens(job) && finish(job);
}

static int run(generate_job *job, const char *directory)
{
    if (!open_model(job, directory)) return CLI_FAILED;
    const bo_model_task task = bo_model_describe(job->model)->task;
    const char *of_translation = cli_translate_given(&job->options->translate);
    if (task == BO_MODEL_TASK_TRANSLATE) return translate(job, directory);
    if (task != BO_MODEL_TASK_LANGUAGE) return cli_fail_task(job->session, directory, task);
    if (of_translation) return cli_task_usage_error(job->session, of_translation, directory, task);
    return continue_text(job) ? CLI_DONE : CLI_FAILED;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int generate(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const generate_options *o = options;
    if (arguments->count != 1)
        return cli_usage_error("generate", "expected one model directory, found %zu arguments", arguments->count);
    if (o->ids && (o->prompt || o->echo))
        return cli_usage_error("generate", "--ids gives the prompt as tokens; leave out --%s",
                               o->prompt ? "prompt" : "echo");
    int checked = cli_sampling_check("generate", &o->sampling);
    if (checked == CLI_DONE) checked = cli_outside_model("generate", "save-state", o->save, arguments->items[0]);
    if (checked != CLI_DONE) return checked;
    cli_session session;
    if (!cli_session_open_in(&session, "generate", common, false, CLI_COMPUTE(o))) return CLI_FAILED;
    generate_job job = {.session = &session, .options = o, .reason = "length", .out = common->json ? NULL : stdout};
    int status = run(&job, arguments->items[0]);
    bo_session_destroy(job.reader);
    bo_model_destroy(job.model);
    bo_ids_free(&job.encoded);
    cli_ids_free(&job.given);
    free(job.ids);
    free(job.text);
    bo_free(job.input);
    cli_session_close(&session);
    return status;
}

static const cli_option text_rows[] = {
    SECTION("Text"),
    TEXT("prompt", "TEXT|-", generate_options, prompt, "text to continue; -: read from standard input",
         .may_be_empty = true),
    TEXT("ids", "IDS.npy", generate_options, ids,
         "token ids to continue, instead of --prompt; the generated ids are in the output of --json, and are printed "
         "if the model has no tokenizer"),
    FLAG("echo", generate_options, echo, "also print the prompt"),
    COUNT("tokens", "N", generate_options, tokens, "maximum number of tokens to generate", .high = 1 << 30,
          .default_text = "256; for translation, twice the source tokens plus 50"),
    COUNT("context", "N", generate_options, context,
          "maximum tokens of prompt and continuation; a context longer than in training is accepted with a warning",
          .low = 1, .default_text = "the tokens of the prompt plus --tokens"),
    LIST("stop", "TEXT", generate_options, stops, "stop before this text; may be given several times"),
    FLAG("ignore-end", generate_options, ignore_end, "do not stop at the model's end-of-text tokens"),
    END_OF_OPTIONS,
};

static const cli_option model_rows[] = {
    SECTION("Model"),
    DEVICE(generate_options),
    PRECISION(generate_options, .traits = 0),
    CHOICE("weights", "HOW", generate_options, weights, BO_ENUM_STORAGE,
           "storage of the weights in memory; fewer bytes make generation faster", .without = 1u << BO_STORAGE_FLOAT8,
           .initial = "float32"),
    SECTION("State"),
    TEXT("save-state", "FILE", generate_options, save, "save the state at the end of the text"),
    TEXT("load-state", "FILE", generate_options, load, "continue from a saved state; --prompt is optional"),
    END_OF_OPTIONS,
};

const cli_usage cli_generate_usage = {
    .command = "generate",
    .synopsis = "DIR [--prompt TEXT] [options]",
    .about =
        "Continues a text with a language model and prints the continuation as it is generated. DIR is a directory "
        "written by bochner train, a Hugging Face model directory, or a model in one .safetensors file. With linear "
        "attention, "
        "the state has a fixed size for texts of any length. A model that translates prints one line per line of "
        "standard input, or for --prompt; with --json, one object per line.",
    .examples = "  bochner generate model --prompt 'In the beginning' --tokens 200 --temperature 0.8\n"
                "  bochner generate model --prompt 'Once' --greedy --save-state here.state --tokens 20\n"
                "  bochner generate model --load-state here.state --tokens 20 --greedy --json\n"
                "  bochner generate german --beam 4 <german.txt\n",
    .groups = {{text_rows, 0},
               {cli_sampling_rows, offsetof(generate_options, sampling)},
               {cli_translate_rows, offsetof(generate_options, translate)},
               {model_rows, 0}},
    .short_help = {"prompt", "ids", "tokens", "stop", "temperature", "top-k", "top-p", "greedy", "beam", "save-state",
                   "load-state", "device", "seed", "json"},
};

int cli_generate(int argc, char **argv)
{
    generate_options o = {0};
    return cli_command(&cli_generate_usage, argc, argv, &o, generate);
}
