/* bochner tokenizer: trains a tokenizer, and converts text to token ids and back. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../common/paths.h"
#include "../common/spool.h"
#include <bochner/json.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct tokenizer_options {
    cli_given was_given;
    size_t vocab, min_frequency;
    const char *out, *pattern;
    cli_list special;
    bool no_special, plain, no_template, lines, skip_special;
} tokenizer_options;

typedef struct tokenizer_job {
    cli_session *session;
    const tokenizer_options *options;
    const cli_arguments *arguments; /* the first is the subcommand */
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    char *input; /* standard input */
    size_t input_bytes;
    bo_ids ids;
    char *text;
} tokenizer_job;

static int failed(tokenizer_job *job, bo_status status)
{
    return status == BO_OK ? CLI_DONE : cli_fail_status(job->session, status);
}

/* ---- train ------------------------------------------------------------------------------------------------------- */

static size_t special_count(const tokenizer_options *o)
{
    return o->no_special ? 0 : o->special.count ? o->special.count : 1;
}

static void report_text(const tokenizer_job *job, size_t files, double seconds)
{
    const size_t vocab = bo_tokenizer_describe(job->tokenizer)->vocab, special = special_count(job->options);
    const double bytes = (double)bo_corpus_bytes(job->corpus), tokens = (double)bo_corpus_tokens(job->corpus);
    printf("Text        %s in %s file%s\n", cli_bytes(bytes).s, cli_count(files).s, files == 1 ? "" : "s");
    printf("Vocabulary  %s tokens: 256 bytes, %s merges, %s special\n", cli_count(vocab).s,
           cli_count(vocab - 256 - special).s, cli_count(special).s);
    printf("Tokens      %s, %s bytes per token\n", cli_count((size_t)tokens).s, cli_significant(bytes / tokens, 3).s);
    printf("Time        %s\n", cli_seconds(seconds).s);
    printf("Tokenizer   %s\n", job->options->out);
}

static void report_json(const tokenizer_job *job, double seconds)
{
    const size_t vocab = bo_tokenizer_describe(job->tokenizer)->vocab, special = special_count(job->options);
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "tokenizer", job->options->out);
    cli_json_add_count(&json, "vocab", vocab);
    cli_json_add_count(&json, "merges", vocab - 256 - special);
    cli_json_add_count(&json, "special", special);
    cli_json_add_count(&json, "bytes", (size_t)bo_corpus_bytes(job->corpus));
    cli_json_add_count(&json, "tokens", (size_t)bo_corpus_tokens(job->corpus));
    cli_json_add_number(&json, "seconds", seconds);
    cli_json_end(&json);
}

static int check_train(const tokenizer_job *job)
{
    const tokenizer_options *o = job->options;
    const size_t files = job->arguments->count - 1;
    if (files == 0) return cli_usage_error("tokenizer", "train: no text; give one or more files");
    if (!o->out) return cli_usage_error("tokenizer", "train: no output file; give --out tokenizer.json");
    if (o->no_special && o->special.count)
        return cli_usage_error("tokenizer", "give --no-special or --special, not both");
    const cli_path output = {"out", o->out};
    for (size_t i = 1; i <= files; i++) {
        const cli_path input = {NULL, job->arguments->items[i]};
        int status = cli_paths_apart("tokenizer", &output, 1, &input, 1);
        if (status != CLI_DONE) return status;
    }
    return CLI_DONE;
}

static int train_on_files(tokenizer_job *job)
{
    static const char *const none[1];
    const tokenizer_options *o = job->options;
    bo_context *context = job->session->context;
    const char *const *paths = job->arguments->items + 1;
    const size_t files = job->arguments->count - 1;
    const bo_tokenizer_desc desc = {.vocab = o->vocab,
                                    .special = o->no_special      ? none
                                               : o->special.count ? o->special.items
                                                                  : NULL,
                                    .special_count = o->special.count,
                                    .pattern = o->pattern,
                                    .min_count = o->min_frequency};
    const double start = cli_now();
    int status = failed(job, bo_tokenizer_train(context, &desc, paths, files, &job->tokenizer));
    if (status != CLI_DONE) return status;
    const double seconds = cli_now() - start;
    status = failed(job, cli_record_output(job->session, o->out,
                                           bo_tokenizer_save(context, job->tokenizer, &(bo_sink){.path = o->out})));
    if (status != CLI_DONE) return status;
    const bo_corpus_desc corpus = {.paths = paths, .path_count = files, .tokenizer = job->tokenizer};
    if ((status = failed(job, bo_corpus_open(context, &corpus, &job->corpus))) != CLI_DONE) return status;
    cli_progress_clear(&job->session->progress);
    if (bo_tokenizer_describe(job->tokenizer)->vocab < o->vocab)
        cli_warn(job->session,
                 "the vocabulary has %zu tokens instead of %zu: no further pair occurs %zu times; train on more text, "
                 "or lower --min-frequency",
                 bo_tokenizer_describe(job->tokenizer)->vocab, o->vocab, o->min_frequency ? o->min_frequency : 2);
    if (job->session->common.json)
        report_json(job, seconds);
    else
        report_text(job, files, seconds);
    return CLI_DONE;
}

/* The text is read twice: for training, and to count its tokens. */
static int train(tokenizer_job *job)
{
    cli_spools spools = {.count = 0};
    int status = cli_can_write(job->session, job->options->out) ? CLI_DONE : CLI_FAILED;
    if (status == CLI_DONE)
        status = cli_spool_all(job->session, &spools, job->arguments->items + 1, job->arguments->count - 1);
    if (status == CLI_DONE) status = train_on_files(job);
    cli_spools_close(&spools);
    return status;
}

/* ---- encode, decode ---------------------------------------------------------------------------------------------- */

static int check_coding(const tokenizer_job *job)
{
    const char *subcommand = job->arguments->items[0];
    if (job->arguments->count == 1)
        return cli_usage_error("tokenizer", "%s: no tokenizer; give a tokenizer.json or a model directory", subcommand);
    if (job->arguments->count > 2)
        return cli_usage_error("tokenizer", "%s reads standard input; unexpected argument '%s'", subcommand,
                               job->arguments->items[2]);
    return CLI_DONE;
}

static int read_input(tokenizer_job *job)
{
    const size_t max_bytes = (size_t)1 << 30;
    void *input = NULL;
    const int status = failed(job, bo_file_load(job->session->context, "-", max_bytes, &input, &job->input_bytes));
    job->input = input;
    return status;
}

static int open_tokenizer(tokenizer_job *job)
{
    return failed(
        job, bo_tokenizer_load(job->session->context, &(bo_source){.path = job->arguments->items[1]}, &job->tokenizer));
}

static int encode_text(tokenizer_job *job, const char *text, size_t bytes)
{
    bo_context *context = job->session->context;
    job->ids.count = 0;
    const unsigned how =
        (job->options->plain ? 0u : BO_ENCODE_SPECIALS) | (job->options->no_template ? 0u : BO_ENCODE_TEMPLATE);
    return failed(job, bo_tokenizer_encode(context, job->tokenizer, text, bytes, how, &job->ids));
}

static void write_ids(const tokenizer_job *job)
{
    if (job->session->common.json || job->options->lines) {
        cli_json json = {.out = stdout, .line = job->options->lines};
        cli_json_object(&json, NULL);
        cli_json_array(&json, "ids");
        for (size_t i = 0; i < job->ids.count; i++) cli_json_add_count(&json, NULL, (size_t)job->ids.items[i]);
        cli_json_end(&json);
        cli_json_end(&json);
        return;
    }
    for (size_t i = 0; i < job->ids.count; i++) printf(i ? " %d" : "%d", (int)job->ids.items[i]);
    putchar('\n');
}

/* Parses integers separated by whitespace. Commas, brackets and the rest of {"ids": [1, 2]} count as whitespace, so
 * that JSON lists are accepted. `where`: prefix of messages. */
static int read_ids(tokenizer_job *job, const char *where, const char *text, size_t bytes, int32_t *ids, size_t *count)
{
    const char *at = text, *end = at + bytes;
    const size_t vocab = bo_tokenizer_describe(job->tokenizer)->vocab;
    *count = 0;
    while (at < end && isspace((unsigned char)*at)) at++;
    if (at < end && *at == '{') {
        const char *from = memchr(at, '[', (size_t)(end - at)), *to = memrchr(at, ']', (size_t)(end - at));
        if (!from || !to || from > to)
            return cli_fail(job->session, "%s: expected {\"ids\": [1, 2, 3]}, found an object without a list", where);
        at = from;
        end = to;
    }
    while (at < end) {
        if (isspace((unsigned char)*at) || strchr(",[]", *at ? *at : 'x')) {
            at++;
            continue;
        }
        const char *word = at;
        size_t id = 0;
        for (; at < end && isdigit((unsigned char)*at) && id < vocab; at++) id = 10 * id + (size_t)(*at - '0');
        while (at < end && !isspace((unsigned char)*at) && !strchr(",[]", *at ? *at : 'x')) {
            if (!isdigit((unsigned char)*at)) id = SIZE_MAX;
            at++;
        }
        if (id >= vocab)
            return cli_fail(job->session, "%s, word %zu: expected a token id from 0 to %zu, found '%.*s'", where,
                            *count + 1, vocab - 1, (int)(at - word < 40 ? at - word : 40), word);
        if (!job->options->skip_special || !bo_tokenizer_is_special(job->tokenizer, (int32_t)id))
            ids[(*count)++] = (int32_t)id;
    }
    return CLI_DONE;
}

/* A text that may contain NUL. */
static void write_string(const char *text, size_t bytes)
{
    const char *end = text + bytes;
    char piece[256];
    putchar('"');
    while (text < end) {
        while (*text) fwrite(piece, 1, bo_json_escape(&text, piece, sizeof piece), stdout);
        if (text < end) fputs("\\u0000", stdout);
        text++;
    }
    putchar('"');
}

static void write_text(const tokenizer_job *job, size_t bytes)
{
    const bool line = job->options->lines;
    if (!job->session->common.json && !line) {
        fwrite(job->text, 1, bytes, stdout); /* main reports errors of standard output */
        return;
    }
    fputs(line ? "{\"text\": " : "{\n  \"text\": ", stdout);
    write_string(job->text, bytes);
    fputs(line ? "}\n" : "\n}\n", stdout);
}

static int decode_ids(tokenizer_job *job, const char *where, const char *text, size_t bytes)
{
    int32_t *ids = cli_allocate(bytes + 1, sizeof *ids, "ids");
    size_t count, length;
    bo_free(job->text);
    job->text = NULL;
    int status = read_ids(job, where, text, bytes, ids, &count);
    if (status == CLI_DONE)
        status =
            failed(job, bo_tokenizer_decode(job->session->context, job->tokenizer, ids, count, &job->text, &length));
    free(ids);
    if (status == CLI_DONE) write_text(job, length);
    return status;
}

/* ---- JSON lines -------------------------------------------------------------------------------------------------- */

static int hex_digits(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const int c = tolower((unsigned char)at[i]);
        if (!isxdigit(c)) return -1;
        value = 16 * value + (isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    return value;
}

static size_t write_utf8(uint32_t point, char *out)
{
    const size_t bytes = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = bytes - 1; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(marks[bytes] | point);
    return bytes;
}

/* Reads \uXXXX, or two of them for a character beyond U+FFFF; *at is after the u. False: not a character. */
static bool read_escaped_point(const char **at, const char *end, uint32_t *point)
{
    const int first = hex_digits(*at, end);
    if (first < 0) return false;
    *at += 4;
    *point = (uint32_t)first;
    if (first < 0xD800 || first > 0xDFFF) return true;
    if (first > 0xDBFF || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u') return false;
    const int second = hex_digits(*at + 2, end);
    if (second < 0xDC00 || second > 0xDFFF) return false;
    *at += 6;
    *point = 0x10000 + ((uint32_t)(first - 0xD800) << 10) + (uint32_t)(second - 0xDC00);
    return true;
}

/* Decodes a JSON string in place; *at is after the opening quote, and after the closing one on return. False:
 * malformed. The text may contain NUL, at which a parser of C strings would stop. */
static bool read_string(char **at, char *end, char **text, size_t *bytes)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *from = *at;
    char *to = *text = *at;
    while (from < end && *from != '"') {
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        if (++from == end) return false;
        const char *name = *from ? strchr(names, *from) : NULL;
        uint32_t point;
        if (name) {
            *to++ = values[name - names];
            from++;
        } else if (*from++ == 'u' && read_escaped_point(&from, end, &point)) {
            to += write_utf8(point, to);
        } else {
            return false;
        }
    }
    if (from == end) return false;
    *at += from + 1 - *at;
    *bytes = (size_t)(to - *text);
    return true;
}

static void skip_whitespace(char **at, const char *end)
{
    while (*at < end && isspace((unsigned char)**at)) (*at)++;
}

/* A line is a string, or an object whose first member is "text". */
static bool read_line(char *at, char *end, char **text, size_t *bytes)
{
    skip_whitespace(&at, end);
    const bool object = at < end && *at == '{';
    if (object) {
        at++;
        skip_whitespace(&at, end);
        if (end - at < 6 || memcmp(at, "\"text\"", 6) != 0) return false;
        at += 6;
        skip_whitespace(&at, end);
        if (at == end || *at++ != ':') return false;
        skip_whitespace(&at, end);
    }
    if (at == end || *at++ != '"' || !read_string(&at, end, text, bytes)) return false;
    skip_whitespace(&at, end);
    return object || at == end;
}

static int encode_line(tokenizer_job *job, const char *where, char *line, size_t length)
{
    char *text;
    size_t bytes;
    if (!read_line(line, line + length, &text, &bytes))
        return cli_fail(job->session, "%s: expected a JSON string or an object that starts with \"text\"", where);
    const int status = encode_text(job, text, bytes);
    if (status == CLI_DONE) write_ids(job);
    return status;
}

static int each_line(tokenizer_job *job, int (*run)(tokenizer_job *, const char *, char *, size_t))
{
    char *at = job->input, *end = at + job->input_bytes;
    int status = CLI_DONE;
    for (size_t number = 1; at < end && status == CLI_DONE; number++) {
        char where[64], *newline = memchr(at, '\n', (size_t)(end - at));
        char *stop = newline ? newline : end;
        snprintf(where, sizeof where, "standard input, line %zu", number);
        status = run(job, where, at, (size_t)(stop - at));
        at = newline ? newline + 1 : end;
    }
    return status;
}

static int decode_line(tokenizer_job *job, const char *where, char *line, size_t length)
{
    return decode_ids(job, where, line, length);
}

static int encode(tokenizer_job *job)
{
    int status = open_tokenizer(job);
    if (status == CLI_DONE) status = read_input(job);
    if (status != CLI_DONE) return status;
    if (job->options->lines) return each_line(job, encode_line);
    status = encode_text(job, job->input, job->input_bytes);
    if (status == CLI_DONE) write_ids(job);
    return status;
}

static int decode(tokenizer_job *job)
{
    int status = open_tokenizer(job);
    if (status == CLI_DONE) status = read_input(job);
    if (status != CLI_DONE) return status;
    if (job->options->lines) return each_line(job, decode_line);
    return decode_ids(job, "standard input", job->input, job->input_bytes);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

typedef struct subcommand {
    const char *name;
    int (*check)(const tokenizer_job *job);
    int (*run)(tokenizer_job *job);
} subcommand;

static const subcommand subcommands[] = {
    {"train", check_train, train}, {"encode", check_coding, encode}, {"decode", check_coding, decode}};

static const char *subcommand_name(const void *items, size_t index)
{
    return ((const subcommand *)items)[index].name;
}

static int unknown_subcommand(const char *word)
{
    const char *near = word ? cli_nearest(word, CLI_COUNT_OF(subcommands), subcommand_name, subcommands) : NULL;
    if (!word) return cli_usage_error("tokenizer", "expected train, encode or decode");
    if (near) return cli_usage_error("tokenizer", "unknown action '%s'; did you mean %s?", word, near);
    return cli_usage_error("tokenizer", "unknown action '%s'; expected train, encode or decode", word);
}

static int tokenizer(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const tokenizer_options *o = options;
    const char *word = arguments->count ? arguments->items[0] : NULL;
    const subcommand *chosen = NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(subcommands) && word; i++)
        if (strcmp(subcommands[i].name, word) == 0) chosen = &subcommands[i];
    if (!chosen) return unknown_subcommand(word);
    cli_session session;
    tokenizer_job job = {.session = &session, .options = o, .arguments = arguments};
    int status = chosen->check(&job);
    if (status != CLI_DONE) return status;
    if (!cli_session_open(&session, "tokenizer", common, false)) return CLI_FAILED;
    status = chosen->run(&job);
    bo_corpus_close(job.corpus);
    bo_tokenizer_destroy(job.tokenizer);
    bo_ids_free(&job.ids);
    bo_free(job.text);
    bo_free(job.input);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("train"),
    COUNT("vocab", "N", tokenizer_options, vocab, "vocabulary size: 256 bytes, the special tokens and the merges",
          .low = 256, .high = 1 << 24, .initial = "8192"),
    TEXT("out", "FILE", tokenizer_options, out, "output file: tokenizer.json"),
    LIST("special", "TEXT", tokenizer_options, special, "text that is always one token; may be given several times",
         .default_text = "<|endoftext|>"),
    FLAG("no-special", tokenizer_options, no_special, "use no special tokens"),
    TEXT("pattern", "REGEX", tokenizer_options, pattern,
         "regular expression that splits the text into words; merges do not cross words",
         .default_text = "the pattern of GPT-2"),
    COUNT("min-frequency", "N", tokenizer_options, min_frequency, "minimum count of a pair to be merged",
          .former_name = "least", .low = 1, .high = 1e9, .default_text = "2"),
    SECTION("encode"),
    FLAG("plain", tokenizer_options, plain, "encode special tokens in the text as ordinary text"),
    FLAG("no-template", tokenizer_options, no_template, "do not add the special tokens of the tokenizer's template"),
    SECTION("decode"),
    FLAG("skip-special", tokenizer_options, skip_special, "skip special tokens"),
    SECTION("encode and decode"),
    FLAG("lines", tokenizer_options, lines,
         "JSON lines: each line of the input is a text or a list of ids, and so is each line of the output"),
    END_OF_OPTIONS,
};

const cli_usage cli_tokenizer_usage = {
    .command = "tokenizer",
    .synopsis = "train FILE... --vocab N --out tokenizer.json   or   encode DIR|FILE <text   or   decode DIR|FILE "
                "<ids",
    .about = "Trains tokenizers, and converts text to token ids and back. train learns a byte-level byte-pair encoding "
             "from text files or JSON lines (.jsonl, field \"text\"), which may be gzipped, and writes a Hugging Face "
             "tokenizer.json. encode and decode use such a file or a model directory, and read standard input; their "
             "results equal those of the Python package tokenizers. With --json, encode prints "
             "{\"ids\": [...]} and decode {\"text\": ...}. With --lines, encode reads one JSON string or "
             "{\"text\": ...} per line, and decode one list or {\"ids\": [...]}. The decoder of a byte-level "
             "tokenizer restores the encoded text byte for byte.",
    .examples = "  bochner tokenizer train text.txt --vocab 4096 --out tokenizer.json\n"
                "  echo 'A tale of two cities' | bochner tokenizer encode tokenizer.json\n"
                "  bochner tokenizer encode tokenizer.json <text.txt | bochner tokenizer decode tokenizer.json\n",
    .groups = {{rows, 0}},
    .short_help = {"vocab", "out", "special", "no-special", "pattern", "threads"},
    .subcommands = {"train", "encode", "decode"},
};

int cli_tokenizer(int argc, char **argv)
{
    tokenizer_options o = {0};
    return cli_command(&cli_tokenizer_usage, argc, argv, &o, tokenizer);
}
