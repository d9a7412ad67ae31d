/* Sessions: a context, its log and progress callbacks, and messages. */
#include "cli.h"
#include "streams.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void on_log(void *user, bo_log_level level, const char *message)
{
    cli_session *session = user;
    if (level == BO_LOG_WARNING)
        cli_warn(session, "%s", message);
    else if (strncmp(message, "solver ", 7) == 0)
        return; /* already part of the report */
    else if (level == BO_LOG_INFO && !session->terse)
        cli_note(session, "%s", message);
}

static bool on_progress(void *user, const char *what, double done, double total)
{
    cli_session *session = user;
    cli_progress_report(&session->progress, what, done, total);
    return !cli_interrupted();
}

bool cli_session_open(cli_session *session, const char *command, const cli_common *common, bool parallel)
{
    return cli_session_open_in(session, command, common, parallel, (cli_compute){0});
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* 0 if there is no plugin: bo_context_use_device() reports why. */
static size_t count_gpus(void)
{
    size_t count = 0;
    bo_context *context;
    if (bo_context_create(&(bo_context_desc){.threads = 1, .trace = ""}, &context) != BO_OK) return 0;
    bo_device_count(context, &count, NULL);
    bo_context_destroy(context);
    return count;
}

typedef struct device_name {
    char s[64];
} device_name;

/* With several ranks on this host, a GPU without a number is selected by the rank. */
static device_name resolve_device(const cli_session *session, const char *requested)
{
    device_name name;
    snprintf(name.s, sizeof name.s, "%s", requested ? requested : "cpu");
    const bool automatic = strcmp(name.s, "auto") == 0;
    if (!automatic && strcmp(name.s, "cuda") != 0) return name;
    if (!automatic && session->ranks.size < 2) return name;
    const size_t count = count_gpus();
    if (count == 0)
        snprintf(name.s, sizeof name.s, automatic ? "cpu" : "cuda");
    else
        snprintf(name.s, sizeof name.s, "cuda:%zu", session->ranks.size < 2 ? 0 : cli_ranks_local() % count);
    return name;
}

static bool is_gpu(device_name name)
{
    return strncmp(name.s, "cuda", 4) == 0;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

bool cli_session_open_in(cli_session *session, const char *command, const cli_common *common, bool parallel,
                         cli_compute compute)
{
    *session = (cli_session){.command = command, .common = *common, .ranks = {.size = 1}};
    char why[3000];
    if (parallel && !cli_ranks_open(&session->ranks, why, sizeof why)) {
        cli_fail(session, "%s", why);
        return false;
    }
    cli_signals_handle(&session->ranks);
    const char *terminal = getenv("TERM");
    session->progress.show = !common->quiet && session->ranks.rank == 0 && isatty(STDERR_FILENO) &&
                             !(terminal && strcmp(terminal, "dumb") == 0);
    const device_name device = resolve_device(session, compute.device);
    bo_context_desc desc = {
        .threads = (int)(common->threads ? common->threads : cli_ranks_threads(&session->ranks)),
        .isa = common->isa,
        .precision = compute.precision_given || !is_gpu(device) ? compute.precision : BO_PRECISION_BFLOAT16,
        .log = on_log,
        .progress = on_progress,
        .user = session,
    };
    bo_status status = bo_context_create(&desc, &session->context);
    const int error = errno;
    if (status == BO_OK && bo_context_use_device(session->context, device.s) == BO_OK) return true;
    if (status == BO_OK) {
        cli_fail(session, "--device: %s", bo_context_error(session->context));
        cli_session_close(session);
        return false;
    }
    const char *isa = common->isa ? common->isa : getenv("BOCHNER_ISA");
    if (status == BO_IO)
        cli_fail(session, "cannot write the trace %s ($BOCHNER_TRACE): %s", getenv("BOCHNER_TRACE"), strerror(error));
    else
        cli_fail(session, "%s%s%s", bo_status_string(status), isa ? ": this CPU or this build has no kernels for " : "",
                 isa ? isa : "");
    cli_session_close(session);
    return false;
}

void cli_session_close(cli_session *session)
{
    cli_progress_clear(&session->progress);
    if (session->context && bo_context_describe(session->context)->trace)
        cli_note(session, "Trace       %s (for https://ui.perfetto.dev or chrome://tracing)",
                 bo_context_describe(session->context)->trace);
    bo_context_destroy(session->context);
    session->context = NULL;
    cli_ranks_close(&session->ranks);
    cli_signals_default();
}

/* Lines are wrapped on a terminal. Elsewhere a message is one line, which programs can search. It is written by one
 * call, because other ranks may write at the same time. */
static void write_lines(const char *text, int indent, const char *join)
{
    char *lines = NULL;
    size_t length = 0;
    FILE *out = isatty(STDERR_FILENO) ? open_memstream(&lines, &length) : NULL;
    if (out) {
        cli_wrap_text(out, text,
                      (cli_wrap){.width = cli_columns(stderr), .indent = indent, .command = join, .join = join});
        fclose(out);
    }
    if (lines)
        cli_streams_print("%s", lines);
    else
        cli_streams_print("%s\n", text);
    free(lines);
}

static void message(cli_session *session, const char *kind, const char *format, va_list arguments)
{
    char line[4096];
    size_t length = (size_t)snprintf(line, 256, "bochner %.32s: %.32s", session->command, kind);
    if (cli_ranks_announced_rank() > 0)
        length += (size_t)snprintf(line + length, 32, "rank %d: ", cli_ranks_announced_rank());
    vsnprintf(line + length, sizeof line - length, format, arguments);
    cli_progress_clear(&session->progress);
    write_lines(line, 4, NULL);
}

/* "Data 60,000 rows": continuation lines are indented to the text, not to the label. */
static int label_width(const char *line)
{
    enum { LABEL = 12 };
    const size_t word = strcspn(line, " ");
    return strlen(line) > LABEL && word < LABEL && word + strspn(line + word, " ") == LABEL ? LABEL : 0;
}

void cli_note(cli_session *session, const char *format, ...)
{
    if (session->common.quiet || session->ranks.rank > 0) return;
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    cli_progress_clear(&session->progress);
    write_lines(line, label_width(line), NULL);
}

void cli_suggest_next(const cli_session *session, const char *format, ...)
{
    static const char start[] = "Next: ";
    if (session->common.quiet || session->common.json || session->ranks.rank > 0) return;
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    memcpy(line, start, sizeof start);
    const int length = vsnprintf(line + strlen(start), sizeof line - strlen(start), format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line - strlen(start)) return; /* a truncated command is not useful */
    cli_progress progress = session->progress;
    cli_progress_clear(&progress);
    cli_streams_flush(); /* the last line, even if both streams go to one file */
    write_lines(line, (int)strlen(start), " \\");
}

void cli_warn(cli_session *session, const char *format, ...)
{
    if (session->ranks.rank > 0) return;
    va_list arguments;
    va_start(arguments, format);
    message(session, "warning: ", format, arguments);
    va_end(arguments);
    fflush(stderr);
}

int cli_fail(cli_session *session, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    message(session, "", format, arguments);
    va_end(arguments);
    cli_streams_flush_messages();
    cli_ranks_abort(&session->ranks, CLI_FAILED);
    return CLI_FAILED;
}

bo_status cli_record_output(cli_session *session, const char *path, bo_status status)
{
    const size_t used = strlen(session->names);
    if (status != BO_OK) return status;
    snprintf(session->names + used, sizeof session->names - used, "%s%s", session->files ? ", " : "", path);
    session->files++;
    return BO_OK;
}

/* Reports the results of stopped work: files, and output so far. */
static void report_stopped(cli_session *session)
{
    const size_t count = session->printed_lines ? session->printed_lines : session->generated;
    char after[64] = "", files[sizeof session->names + 64] = "";
    if (count)
        snprintf(after, sizeof after, " after %s %s%s", cli_count(count).s, session->printed_lines ? "answer" : "token",
                 count == 1 ? "" : "s");
    if (session->files)
        snprintf(files, sizeof files, "; %s %s written", session->names, session->files == 1 ? "was" : "were");
    else if (!count)
        snprintf(files, sizeof files, "; %s was written", cli_streams_used() ? "no file" : "nothing");
    cli_fail(session, "stopped on request%s%s", after, files);
}

int cli_fail_status(cli_session *session, bo_status status)
{
    if (status == BO_CANCELED) {
        if (cli_signal()) report_stopped(session); /* a failed standard output is reported at the end */
        return CLI_INTERRUPTED;
    }
    const char *message = bo_context_error(session->context);
    return cli_fail(session, "%s", *message ? message : bo_status_string(status));
}

int cli_usage_error(const char *command, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    va_end(arguments);
    cli_streams_print("bochner %s: %s (bochner %s --help)\n", command, text ? text : "out of memory", command);
    free(text);
    return CLI_USAGE_ERROR;
}

int cli_command(const cli_usage *usage, int argc, char **argv, void *options, cli_command_fn run)
{
    cli_common common = {0};
    cli_arguments arguments = {0};
    const cli_parsed parsed = cli_parse(usage, argc, argv, options, &common, &arguments);
    const int status = parsed == CLI_PARSED       ? run(options, &common, &arguments)
                       : parsed == CLI_HELP_SHOWN ? CLI_DONE
                                                  : CLI_USAGE_ERROR;
    free(arguments.items);
    return status;
}

bool cli_can_write(cli_session *session, const char *path)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    char directory[4096];
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (slash == path) snprintf(directory, sizeof directory, "/");
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            cli_fail(session, "cannot write %s: it is a directory", path);
            return false;
        }
        if (!S_ISREG(info.st_mode)) return true; /* a device or a pipe is written in place */
    }
    if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode)) {
        cli_fail(session, "cannot write %s: there is no directory %s", path, directory);
        return false;
    }
    if (access(directory, W_OK) != 0) {
        cli_fail(session, "cannot write %s: directory %s: %s", path, directory, strerror(errno));
        return false;
    }
    return true;
}
