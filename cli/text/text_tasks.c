#include "text_tasks.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

const char *cli_task_phrase(bo_model_task task)
{
    static const char *const phrases[] = {"a language model", "a model that classifies texts",
                                          "a model that matches texts", "a model that translates", "a network"};
    return phrases[task];
}

int cli_fail_task(cli_session *session, const char *directory, bo_model_task task)
{
    const bool labels = task == BO_MODEL_TASK_CLASSIFY || task == BO_MODEL_TASK_MATCH;
    return cli_fail(session, "%s holds %s; use bochner %s, eval or info, not %s", directory, cli_task_phrase(task),
                    labels ? "predict" : "generate", session->command);
}

int cli_task_usage_error(const cli_session *session, const char *option, const char *directory, bo_model_task task)
{
    return cli_usage_error(session->command, "--%s does not apply: %s holds %s", option, directory,
                           cli_task_phrase(task));
}

bo_texts_desc cli_texts_desc(const bo_model *model, bool alone, size_t context)
{
    const bo_model_desc *d = bo_model_describe(model);
    bo_texts_desc desc = {0};
    bo_model_preset_texts(model, alone, &desc);
    if (d->task == BO_MODEL_TASK_TRANSLATE) return desc;
    if (context || !bo_model_report(model)->state_bytes) desc.longest = context ? context : d->context;
    desc.cut = true;
    return desc;
}

void cli_texts_report_truncated(cli_session *session, size_t cut, const bo_model *model, const bo_texts_desc *desc)
{
    const bo_model_desc *d = bo_model_describe(model);
    const bool all = d->block.positions == BO_POSITIONS_LEARNED && desc->longest >= d->context;
    if (cut == 0) return;
    cli_note(session, "Truncated   %s text%s to %s tokens (%s)", cli_count(cut).s, cut == 1 ? "" : "s",
             cli_count(desc->longest).s,
             all ? "the limit of the model's learned positions" : "--context N changes the limit");
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static bool starts_with(const char *path, const char *magic)
{
    char start[8] = "";
    FILE *file = fopen(path, "rb");
    const size_t length = strlen(magic);
    const bool same = file && fread(start, 1, length, file) == length && memcmp(start, magic, length) == 0;
    if (file) fclose(file);
    return same;
}

bool cli_fail_foreign(cli_session *session, const char *path)
{
    struct stat about;
    bo_conversion *conversion = NULL;
    bo_conversion_info info = {0};
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
    const bool gguf = starts_with(path, "GGUF"); /* also for damaged files; old llama2.c files have no magic number */
    const bool opened =
        !gguf && bo_conversion_open(session->context, &(bo_convert_desc){.from = path}, &info, &conversion) == BO_OK;
    if (!gguf && !opened) return false;
    char *word = cli_shell_quoted(path);
    cli_fail(session, "%s is a %s model, which must be converted first: bochner convert %s --out DIR", path,
             gguf ? "GGUF" : info.format, word);
    free(word);
    bo_conversion_close(conversion);
    return true;
}

int cli_fail_model(cli_session *session, const char *path, bo_status status)
{
    struct stat about;
    const bool found = stat(path, &about) == 0, directory = found && S_ISDIR(about.st_mode);
    if (!found && errno == ENOENT)
        return cli_fail(session,
                        "%s: no such file or directory; expected a directory written by bochner train, a Hugging Face "
                        "model directory, or a "
                        "text model in one .safetensors file",
                        path);
    if (status != BO_FORMAT || directory) return cli_fail_status(session, status);
    char *message = strdup(bo_context_error(session->context));
    if (!cli_fail_foreign(session, path))
        cli_fail(session,
                 "%s; supported: a directory written by bochner train, a Hugging Face model directory, or a text model "
                 "in one "
                 ".safetensors file",
                 message ? message : bo_status_string(status));
    free(message);
    return CLI_FAILED;
}

/* ---- lines of standard input ------------------------------------------------------------------------------------- */

typedef struct line_buffer {
    char *text;
    size_t length, capacity;
    size_t lines; /* lines processed so far */
    size_t cut;   /* number of truncated texts */
    bool typed;   /* standard input is a terminal */
    bool another; /* the latest bytes contain a line end */
    bool ended;
} line_buffer;

/* Waits for input and reads the bytes that are available. */
static bool read_more(cli_session *session, line_buffer *buffer)
{
    enum { PIECE = 1 << 16, MAX_BYTES = 1 << 28 };
    if (buffer->length > MAX_BYTES) {
        cli_fail(session, "standard input, line %zu: longer than the maximum of %s", buffer->lines + 1,
                 cli_bytes(MAX_BYTES).s);
        return false;
    }
    if (buffer->capacity - buffer->length < PIECE) {
        const size_t capacity = 2 * buffer->capacity + PIECE;
        char *larger = cli_allocate(capacity, 1, "lines");
        if (buffer->length) memcpy(larger, buffer->text, buffer->length);
        free(buffer->text);
        buffer->text = larger;
        buffer->capacity = capacity;
    }
    const ssize_t count = read(STDIN_FILENO, buffer->text + buffer->length, PIECE);
    const int error = errno;
    if (cli_interrupted()) return cli_fail_status(session, BO_CANCELED), false;
    if (count < 0 && error == EINTR) return true;
    if (count < 0) return cli_fail(session, "standard input: %s", strerror(error)), false;
    buffer->another = memchr(buffer->text + buffer->length, '\n', (size_t)count) != NULL;
    buffer->length += (size_t)count;
    buffer->ended = count == 0;
    return true;
}

/* The start of the line that ends before `end`. */
static size_t line_start(const char *text, size_t end)
{
    size_t at = end;
    if (at > 0 && text[at - 1] == '\n') at--;
    while (at > 0 && text[at - 1] != '\n') at--;
    return at;
}

/* Bytes of complete lines; at the end of the input this includes a last line without a line end. If empty lines are not
 * texts, trailing empty lines stay in the buffer, because empty lines at the end of the input are ignored. */
static size_t complete_lines(const line_buffer *buffer, bool empty)
{
    const char *text = buffer->text;
    size_t bytes = buffer->length;
    if (!buffer->ended && bytes > 0 && text[bytes - 1] != '\n') bytes = line_start(text, bytes);
    while (!empty && bytes > 0) {
        const size_t start = line_start(text, bytes);
        if (text[start] != '\n' && !(text[start] == '\r' && start + 2 == bytes)) break;
        bytes = start;
    }
    return bytes;
}

static void report_refused(cli_session *session, const cli_texts_source *source, bo_status status)
{
    const char *message = bo_context_error(session->context);
    if (status == BO_FORMAT && source->tabs && strstr(message, " tab"))
        cli_fail(session, "%s; %s", message, source->tabs);
    else
        cli_fail_status(session, status);
}

static bool process_texts(cli_session *session, const cli_texts_source *source, const bo_texts_desc *desc, bool typed,
                          size_t *cut)
{
    bo_texts *texts = NULL;
    const bo_status status = bo_texts_open(session->context, desc, &texts);
    if (status != BO_OK) {
        report_refused(session, source, status);
        return typed && status == BO_FORMAT;
    }
    *cut += bo_texts_describe(texts)->truncated;
    const bool taken = source->use(source->user, texts);
    bo_texts_close(texts);
    return taken;
}

static bool process_lines(cli_session *session, const cli_texts_source *source, line_buffer *buffer)
{
    if (!buffer->another && !buffer->ended) return true; /* avoids repeated scans of a long line */
    const size_t bytes = complete_lines(buffer, source->desc->empty);
    if (bytes == 0) return true;
    bo_texts_desc desc = *source->desc;
    desc.memory = buffer->text;
    desc.memory_bytes = bytes;
    desc.before = buffer->lines;
    if (!process_texts(session, source, &desc, buffer->typed, &buffer->cut)) return false;
    for (size_t i = 0; i < bytes; i++) buffer->lines += buffer->text[i] == '\n';
    buffer->length -= bytes;
    memmove(buffer->text, buffer->text + bytes, buffer->length);
    return true;
}

static bool each_line(cli_session *session, const cli_texts_source *source)
{
    static const char *const kinds[] = {"label, tab, text", "label, tab, text, tab, text", "source, tab, target",
                                        "one text per line", "text, tab, text"};
    line_buffer buffer = {.typed = isatty(STDIN_FILENO)};
    bool ok = true;
    if (buffer.typed) cli_note(session, "Input       %s; end with Ctrl-D", kinds[source->desc->kind]);
    while (ok && !buffer.ended) ok = read_more(session, &buffer) && process_lines(session, source, &buffer);
    free(buffer.text);
    cli_texts_report_truncated(session, buffer.cut, source->model, source->desc);
    return ok;
}

bool cli_texts_each(cli_session *session, const cli_texts_source *source)
{
    bo_texts_desc desc = *source->desc;
    if (!source->text && strcmp(source->path, "-") == 0) return each_line(session, source);
    desc.paths = &source->path;
    desc.path_count = source->text ? 0 : 1;
    desc.memory = source->text;
    desc.memory_bytes = source->text ? strlen(source->text) : 0;
    size_t cut = 0;
    const bool taken = process_texts(session, source, &desc, false, &cut);
    cli_texts_report_truncated(session, cut, source->model, &desc);
    return taken;
}

/* ---- options of translation -------------------------------------------------------------------------------------- */

const cli_option cli_translate_rows[] = {
    COUNT("beam", "N", cli_translate_options, beam, "for translation: beam size; 1: greedy decoding", .low = 1,
          .high = 1024, .default_text = "1"),
    REAL("penalty", "X", cli_translate_options, penalty,
         "for --beam: length penalty; the score of a hypothesis is log p / ((5 + length) / 6)^X; 0: none", .high = 100,
         .default_text = "1"),
    END_OF_OPTIONS,
};

const char *cli_translate_given(const cli_translate_options *o)
{
    const cli_option *row = cli_next_given(cli_translate_rows, o, NULL);
    return row ? row->name : NULL;
}

bo_translate_desc cli_translate_desc(const cli_translate_options *o)
{
    return (bo_translate_desc){.beam = o->beam,
                               .penalty = !CLI_GIVEN(o, penalty) ? 0
                                          : o->penalty > 0       ? o->penalty
                                                                 : -1};
}
