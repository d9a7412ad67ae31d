/* bochner chat: a conversation with a model, on a terminal or through pipes. */
#include "chat.h"
#include "../model/extrapolation.h"
#include "../network/network.h"
#include "../text/text_tasks.h"
#include "../common/json.h"
#include "../common/paths.h"
#include "../common/streams.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lines of standard input ------------------------------------------------------------------------------------- */

enum { MAX_LINE_BYTES = 1 << 26 };

/* Lines are read without stdio, so that a signal interrupts a wait for input. */
typedef struct lines {
    char *bytes;
    size_t length, capacity, at; /* at: bytes already returned */
    size_t number;               /* of the last line */
    bool ended, terminal;
} lines;

typedef enum line_outcome { LINE_READ, LINE_END, LINE_SIGNAL, LINE_FAILED } line_outcome;

/* Waits for input. False: a signal arrived. */
static bool wait_for_input(void)
{
    enum { WAIT_MS = 200 };
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!cli_signal()) {
        const int ready = poll(&input, 1, WAIT_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return true; /* read() returns the error */
    }
    return false;
}

static line_outcome read_more(lines *in)
{
    enum { PIECE = 1 << 16 };
    if (in->at > 0) {
        memmove(in->bytes, in->bytes + in->at, in->length - in->at);
        in->length -= in->at;
        in->at = 0;
    }
    if (in->capacity - in->length < PIECE + 1) {
        char *larger = cli_allocate(2 * in->capacity + PIECE + 1, 1, "a line");
        if (in->length) memcpy(larger, in->bytes, in->length);
        free(in->bytes);
        in->bytes = larger;
        in->capacity = 2 * in->capacity + PIECE + 1;
    }
    if (!wait_for_input()) return LINE_SIGNAL;
    const ssize_t count = read(STDIN_FILENO, in->bytes + in->length, PIECE);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return LINE_READ;
    if (count < 0) return LINE_FAILED;
    in->ended = count == 0;
    in->length += (size_t)count;
    return LINE_READ;
}

/* The next line without its newline, followed by a NUL; valid until the next call. */
static line_outcome next_line(cli_session *session, lines *in, char **out, size_t *length)
{
    for (;;) {
        char *start = in->length > in->at ? in->bytes + in->at : NULL; /* the buffer is NULL before the first input */
        char *end = start ? memchr(start, '\n', in->length - in->at) : NULL;
        if (start && !end && in->ended) end = in->bytes + in->length;
        if (end) {
            in->at = (size_t)(end - in->bytes) + ((size_t)(end - in->bytes) < in->length);
            *end = 0; /* the buffer has space for one more byte */
            if (end > start && end[-1] == '\r') *--end = 0;
            in->number++;
            *out = start;
            *length = (size_t)(end - start);
            return LINE_READ;
        }
        if (in->ended) return LINE_END;
        if (in->length - in->at > MAX_LINE_BYTES) {
            cli_fail(session, "line %zu of standard input has more than %d bytes", in->number + 1, MAX_LINE_BYTES);
            return LINE_FAILED;
        }
        const line_outcome outcome = read_more(in);
        if (outcome == LINE_FAILED) cli_fail(session, "standard input: %s", strerror(errno));
        if (outcome != LINE_READ) return outcome;
    }
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static double rate(size_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : NAN;
}

static void print_json(const cli_chat_job *job, const cli_chat_reply *reply)
{
    cli_json json = {.out = stdout, .line = true};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "role", "assistant");
    cli_json_add_text(&json, "content", job->messages.items[job->messages.count - 1].content);
    cli_json_add_count(&json, "prompt_tokens", reply->prompt_tokens);
    cli_json_add_count(&json, "tokens", reply->tokens);
    cli_json_add_number(&json, "tokens_per_second", rate(reply->tokens, reply->seconds));
    cli_json_add_text(&json, "finish_reason", reply->reason);
    cli_json_end(&json);
}

/* Sends a message to the model. False: the program ends, after an error message or on request. */
static bool send_question(cli_chat_job *job, const lines *in, const char *question)
{
    const bool as_json = job->session->common.json;
    cli_chat_reply reply;
    if (bo_utf8_length(question, strlen(question)) == 0) return true;
    const cli_chat_outcome outcome = cli_chat_send(job, question, as_json ? NULL : stdout, &reply);
    const bool replied = outcome == CLI_CHAT_REPLIED;
    if (replied && as_json)
        print_json(job, &reply);
    else if (replied)
        putchar('\n');
    cli_streams_flush();
    if (replied) job->session->printed_lines++;
    if (replied && strcmp(reply.reason, "context") == 0)
        cli_warn(job->session, "the reply ends because the context is full");
    else if (replied && in->terminal)
        cli_note(job->session, "            %s tokens, %s tokens per second", cli_count(reply.tokens).s,
                 cli_count((size_t)fmax(rate(reply.tokens, reply.seconds), 0)).s);
    free(reply.text);
    if (cli_signal() && cli_signals_cancel(SIGINT)) return true; /* Ctrl-C stopped the reply, not the program */
    return !cli_interrupted() && (outcome != CLI_CHAT_REFUSED || in->terminal);
}

/* ---- commands at the prompt -------------------------------------------------------------------------------------- */

static void print_history(const cli_chat_job *job)
{
    for (size_t i = 0; i < job->messages.count; i++)
        cli_streams_print("%s: %s\n", job->messages.items[i].role, job->messages.items[i].content);
    cli_streams_print("(%s tokens were read)\n", cli_count(job->read.count).s);
}

static void print_commands(void)
{
    fputs("/help      show this list\n"
          "/history   show the messages\n"
          "/reset     start a new conversation with the same system message\n"
          "/save      save the conversation to the file of --state\n"
          "/exit      save and leave; so does Ctrl-D\n"
          "Ctrl-C     stop the reply; at the prompt: save and leave\n",
          stderr);
}

static bool save(cli_chat_job *job)
{
    if (!job->options->state) {
        cli_fail(job->session, "/save: start bochner chat with --state FILE to save the conversation");
        return true;
    }
    return cli_chat_save(job);
}

/* A slash and one lower-case word is a command. */
static bool is_command(const char *line)
{
    const size_t length = line[0] == '/' ? strspn(line + 1, "abcdefghijklmnopqrstuvwxyz") : 0;
    return length > 0 && line[1 + length + strspn(line + 1 + length, " \t")] == 0;
}

static bool names(const char *line, const char *command)
{
    const size_t length = strlen(command);
    return strncmp(line, command, length) == 0 && (line[length] == 0 || line[length] == ' ' || line[length] == '\t');
}

/* Returns false to end the program. */
static bool run_command(cli_chat_job *job, const char *line)
{
    if (names(line, "/exit") || names(line, "/quit")) return false;
    if (names(line, "/help"))
        print_commands();
    else if (names(line, "/history"))
        print_history(job);
    else if (names(line, "/reset"))
        return cli_chat_reset(job);
    else if (names(line, "/save"))
        return save(job);
    else
        cli_fail(job->session, "unknown command %.40s (/help lists all commands)", line);
    return true;
}

/* ---- the conversation -------------------------------------------------------------------------------------------- */

static bool is_valid(cli_chat_job *job, const lines *in, const char *line, size_t length)
{
    for (size_t i = 0; i < length;) {
        const size_t char_bytes = bo_utf8_length(line + i, length - i);
        if (line[i] == 0) {
            cli_fail(job->session, "line %zu of standard input: byte %zu is NUL, which is not supported in messages",
                     in->number, i);
            return false;
        }
        if (char_bytes == 0) {
            cli_fail(job->session, "line %zu of standard input: byte %zu is not UTF-8", in->number, i);
            return false;
        }
        i += char_bytes;
    }
    return true;
}

/* Reads lines until the end of the input, /exit or a stop request. */
static int converse(cli_chat_job *job, lines *in)
{
    for (;;) {
        char *line;
        size_t length;
        if (in->terminal) fputs("> ", stderr);
        const line_outcome outcome = next_line(job->session, in, &line, &length);
        if (outcome == LINE_SIGNAL && cli_signals_cancel(SIGINT)) {
            if (in->terminal) fputc('\n', stderr);
            return CLI_DONE; /* Ctrl-C at the prompt leaves */
        }
        if (outcome == LINE_SIGNAL) return CLI_INTERRUPTED;
        if (outcome != LINE_READ) {
            if (in->terminal) fputc('\n', stderr);
            return outcome == LINE_END ? CLI_DONE : CLI_FAILED;
        }
        if (!is_valid(job, in, line, length)) {
            if (!in->terminal) return CLI_FAILED;
            continue;
        }
        if (line[strspn(line, " \t")] == 0) continue;
        if (is_command(line)) {
            if (!run_command(job, line)) return CLI_DONE;
        } else if (!send_question(job, in, line)) {
            return cli_signal() ? CLI_INTERRUPTED : CLI_FAILED;
        }
    }
}

static bool open_template(cli_chat_job *job)
{
    bo_context *context = job->session->context;
    const bo_chat_template_desc desc = {.directory = job->directory, .path = job->options->template};
    const bo_status status = bo_chat_template_create(context, &desc, &job->chat);
    if (status == BO_OK) return true;
    char *message = strdup(bo_context_error(context));
    if (status == BO_IO && !job->options->template) {
        if (!cli_fail_foreign(job->session, job->directory))
            cli_fail(job->session, "%s; give one with --template FILE, or continue text with bochner generate",
                     message ? message : bo_status_string(status));
    } else {
        cli_fail_status(job->session, status);
    }
    free(message);
    return false;
}

/* Renders an empty template, so that invalid variables are refused first. */
static bool check_variables(cli_chat_job *job)
{
    bo_context *context = job->session->context;
    const bo_chat_template_desc desc = {.text = ""};
    const bo_chat_options options = {.variables = job->options->variables};
    bo_chat_template *empty;
    char *text = NULL;
    size_t bytes;
    bo_status status = bo_chat_template_create(context, &desc, &empty);
    if (status == BO_OK) status = bo_chat_render(context, empty, NULL, 0, &options, &text, &bytes);
    if (status != BO_OK) cli_fail(job->session, "--variables: %s", bo_context_error(context));
    bo_free(text);
    bo_chat_template_destroy(empty);
    return status == BO_OK;
}

static int run(cli_chat_job *job)
{
    if (!cli_is_no_network(job->session, job->directory) || !check_variables(job) || !open_template(job))
        return CLI_FAILED;
    if (job->options->render) return cli_chat_render(job);
    if (!cli_chat_open(job)) return CLI_FAILED;
    lines in = {.terminal = isatty(STDIN_FILENO)};
    if (job->options->state) cli_signals_saving();
    if (in.terminal) cli_note(job->session, "Type a message and Enter; /help lists commands, Ctrl-D leaves.");
    const int status = converse(job, &in);
    free(in.bytes);
    if (!cli_chat_save(job)) return CLI_FAILED;
    return status == CLI_INTERRUPTED && cli_signal() ? cli_fail_status(job->session, BO_CANCELED) : status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int chat(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_chat_options *o = options;
    if (arguments->count != 1)
        return cli_usage_error("chat", "expected one model directory, found %zu arguments", arguments->count);
    int checked = cli_sampling_check("chat", &o->sampling);
    if (checked == CLI_DONE) checked = cli_outside_model("chat", "state", o->state, arguments->items[0]);
    if (checked != CLI_DONE) return checked;
    cli_session session;
    if (!cli_session_open_in(&session, "chat", common, false, CLI_COMPUTE(o))) return CLI_FAILED;
    cli_chat_job job = {.session = &session, .options = o, .directory = arguments->items[0]};
    const int status = run(&job);
    cli_chat_close(&job);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Conversation"),
    TEXT("system", "TEXT", cli_chat_options, system, "system message, before all other messages", .may_be_empty = true),
    COUNT("tokens", "N", cli_chat_options, tokens, "maximum number of tokens per reply", .low = 1, .high = 1 << 30,
          .initial = "512"),
    LIST("stop", "TEXT", cli_chat_options, stops, "end a reply before this text; may be given several times"),
    TEXT(
        "state", "FILE", cli_chat_options, state,
        "resume the conversation in this file, and save it there at the end; the file is created if it does not exist"),
    COUNT("context", "N", cli_chat_options, context, "maximum number of tokens of a conversation", .low = 2,
          .high = 1 << 30,
          .default_text = "the training context, at most " CLI_DIGITS(
              CLI_DEFAULT_MAX_CONTEXT) "; unlimited for states of fixed size"),
    FLAG("drop-oldest", cli_chat_options, drop_oldest, "drop the oldest turns if the context is full",
         .former_name = "forget"),
    SECTION("Template"),
    TEXT("template", "FILE", cli_chat_options, template, "chat template, instead of the model's template"),
    TEXT("variables", "JSON", cli_chat_options, variables,
         "additional variables of the template, such as '{\"enable_thinking\": false}'"),
    FLAG("parse-special", cli_chat_options, parse_special,
         "encode special tokens in messages, such as <|im_end|>, as these tokens, not as plain text"),
    FLAG("render", cli_chat_options, render,
         "print the rendered prompt for each line of standard input, a JSON list of messages, and generate nothing"),
    SECTION("Model"),
    DEVICE(cli_chat_options),
    PRECISION(cli_chat_options, .traits = 0),
    CHOICE("weights", "HOW", cli_chat_options, weights, BO_ENUM_STORAGE,
           "storage of the weights in memory; fewer bytes make generation faster", .without = 1u << BO_STORAGE_FLOAT8,
           .initial = "float32"),
    END_OF_OPTIONS,
};

const cli_usage cli_chat_usage = {
    .command = "chat",
    .synopsis = "DIR [--system TEXT] [options]",
    .about = "Talks with a chat model. DIR is a model directory with a chat template (chat_template.jinja or "
             "tokenizer_config.json). Each line of standard input is a message, and replies are printed as they are "
             "generated; with --json, one object per reply and line. At the prompt, /help lists commands, Ctrl-C stops "
             "a reply, and Ctrl-D leaves.",
    .examples = "  bochner chat model --system 'Answer in one sentence.' --temperature 0.7\n"
                "  bochner chat model --state talk.chat\n"
                "  echo 'What is a kernel?' | bochner chat model --greedy --json\n",
    .groups = {{rows, 0}, {cli_sampling_rows, offsetof(cli_chat_options, sampling)}},
    .short_help = {"system", "tokens", "state", "drop-oldest", "template", "temperature", "top-k", "top-p", "greedy",
                   "weights", "device", "seed", "json"},
};

int cli_chat(int argc, char **argv)
{
    cli_chat_options o = {0};
    return cli_command(&cli_chat_usage, argc, argv, &o, chat);
}
